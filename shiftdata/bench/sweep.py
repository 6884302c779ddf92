"""A sweep as data: tasks x methods x backbones, a search for each, and how much it may cost."""

from __future__ import annotations

import itertools
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from shiftdata.baselines import TRAINING, Hyper, Training, make_method
from shiftdata.baselines.heads import HEAD_METHODS
from shiftdata.bench.job import HEADS, TaskSpec
from shiftdata.bench.records import SWEEP
from shiftdata.bench.search import Search
from shiftdata.bench.selection import rule_of
from shiftdata.dataset import open_dataset
from shiftdata.errors import InputError, NotFoundError, not_found
from shiftdata.format.typed import read_json, record

PRESETS = Path(__file__).parent / "presets"
Given = TypeVar("Given", Training, Search)
#: What linear heads are trained with: all rows in one batch, as `train_heads` does.
HEAD_TRAINING = Training(
    steps=300, batch=0, optimizer="sgd", schedule="constant", weight_decay=0.0, shift=0, evaluate_every=100
)


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method with its variant and the numbers that a search leaves alone; `text` is "jtt@code"."""

    name: str
    variant: str = "fixed"
    hyper: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, hyper: Mapping[str, Mapping[str, float]]) -> MethodSpec:
        name, _, variant = text.partition("@")
        spec = cls(name=name, variant=variant or "fixed", hyper=hyper.get(text, {}))
        make_method(spec.name, variant=spec.variant, **spec.hyper)  # refuses a wrong name here
        return spec


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Many studies with one search; `rules` are those that its results are reported under.

    Predictions are kept of the chosen runs, or with `keep` "select" also of every run on the set to select
    by, so that others can repeat the selection, or "all". With `leave_domains_out` each trial is also trained
    without each training domain, for the rule leave-one-domain-out.
    """

    name: str
    tasks: tuple[TaskSpec, ...]
    methods: tuple[MethodSpec, ...]
    about: str = ""
    backbones: tuple[str, ...] = ("small-cnn",)
    training: Training = TRAINING
    search: Search = field(default_factory=Search)
    rules: tuple[str, ...] = ("iid",)
    leave_domains_out: bool = False
    keep: Literal["chosen", "select", "all"] = "chosen"
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.tasks or not self.methods or not self.backbones:
            raise InputError(f"the sweep {self.name} needs a task, a method and a backbone")
        for rule in (*self.rules, self.search.rule):
            rule_of(rule)
        if self.keep not in ("chosen", "select", "all"):
            raise not_found("keep", self.keep, ("chosen", "select", "all"))
        if HEADS in self.backbones:
            self._check_heads()

    def _check_heads(self) -> None:
        for method in self.methods:
            if method.name not in HEAD_METHODS:
                hint = "Others train with `linear`."
                raise not_found("method of linear heads", method.name, HEAD_METHODS, hint)
        same = {name: getattr(HEAD_TRAINING, name) for name in ("batch", "optimizer", "schedule")}
        if any(getattr(self.training, name) != value for name, value in same.items()):
            raise InputError(
                f"the backbone heads trains with {same}: give the sweep these, or another backbone"
            )

    def studies(self) -> Iterator[tuple[TaskSpec, MethodSpec, str]]:
        return itertools.product(self.tasks, self.methods, self.backbones)


def read_sweep(source: str | Path, datasets: Sequence[str] = ()) -> Sweep:
    """The sweep of a .toml file, or the preset of that name; `datasets` replaces those that it names."""
    path = Path(source)
    if path.suffix != ".toml":
        known = presets()
        if str(source) not in known:
            raise not_found("preset", str(source), known, "Or give a .toml file.")
        path = PRESETS / f"{source}.toml"
    if not path.exists():
        raise NotFoundError(
            f"there is no sweep file {path}: give an existing .toml file, or a preset: {', '.join(presets())}"
        )
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a sweep: {error}") from error
    return sweep_of({"name": path.stem, **raw}, datasets, str(path))


def presets() -> list[str]:
    """The sweeps that ship, by name."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def sweep_of(raw: Mapping[str, Any], datasets: Sequence[str] = (), where: str = "the sweep") -> Sweep:
    """A sweep of plain data, as a .toml file has it."""
    keys = {field.name for field in fields(Sweep)} | {"datasets", "hyper"}
    for key in raw:
        if key not in keys:
            raise not_found(f"key of {where}", key, keys)
    for key in ("tasks", "methods"):
        if not raw.get(key):
            raise InputError(f"{where} has no {key}: see `shiftdata sweep --help`")
    given = {name: raw[name] for name in ("name", "about", "leave_domains_out", "keep") if name in raw}
    given |= {name: _texts(raw[name]) for name in ("backbones", "rules", "imports") if name in raw}
    import_methods(given.get("imports", ()))
    hyper = raw.get("hyper", {})
    for text in hyper:
        if text not in raw["methods"]:
            raise not_found(f"method of [hyper] in {where}", text, raw["methods"])
    tasks = [
        spec for entry in raw["tasks"] for spec in _tasks(entry, datasets or raw.get("datasets", ()), where)
    ]
    start = HEAD_TRAINING if HEADS in given.get("backbones", ()) else TRAINING
    return Sweep(
        **given,
        tasks=tuple(dict.fromkeys(tasks)),
        methods=tuple(MethodSpec.of(text, hyper) for text in raw["methods"]),
        training=_replaced(start, raw.get("training", {}), f"[training] of {where}"),
        search=_search(raw.get("search", {}), where),
    )


def import_methods(modules: Sequence[str]) -> None:
    """Import the modules that register methods of one's own: from here on their names are known."""
    here = str(Path.cwd())
    if modules and here not in sys.path:  # the command `shiftdata` does not look there by itself
        sys.path.append(here)
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            raise InputError(
                f"the sweep imports {name}, and that fails in {here} ({error}): run this in the folder that "
                f"has {name.partition('.')[0]}, or put that folder into PYTHONPATH"
            ) from error


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _replaced(start: Given, given: Mapping[str, Any], where: str) -> Given:
    names = [field.name for field in fields(start)]
    for key in given:
        if key not in names:
            raise not_found(f"key of {where}", key, names)
    try:
        return replace(start, **given)
    except TypeError as error:
        raise InputError(f"{where}: {error}") from error


def _search(given: Mapping[str, Any], where: str) -> Search:
    space = {}
    for name, values in given.get("space", {}).items():
        if isinstance(values, list):
            space[name] = Hyper(values[0], choices=tuple(values))
        elif {"low", "high"} <= set(values) <= {"low", "high", "log"}:
            space[name] = Hyper(values["low"], **values)
        else:
            raise InputError(
                f"{where}: the space of {name} is a list of values, or low, high and log, got {values}"
            )
    return _replaced(Search(), {**given, "space": space}, f"[search] of {where}")


def _tasks(given: Mapping[str, Any], datasets: Sequence[str], where: str) -> Iterator[TaskSpec]:
    """The tasks of an entry: of each dataset, one for each combination of the parameters' values."""
    params = dict(given)
    about = {name: params.pop(name) for name in ("base", "unlabelled", "on_empty") if name in params}
    places = _texts(params.pop("dataset", datasets))
    protocol, canonical = params.pop("protocol", None), params.pop("canonical", None)
    if (protocol is None) == (canonical is None):
        raise InputError(f'a task of {where} needs protocol = or canonical =, such as canonical = "uda_*"')
    if not places:
        raise InputError(f"{where} names no dataset: give datasets = [...], or --dataset")
    values = [value if isinstance(value, list) else [value] for value in params.values()]
    points = [zip(params, point, strict=True) for point in itertools.product(*values)]
    texts = [" ".join([str(protocol), *(f"{name}={value}" for name, value in point)]) for point in points]
    for place in places:
        for text in texts if canonical is None else _canonical(place, canonical):
            yield TaskSpec(dataset=place, protocol=text, **about)


def _canonical(place: str, patterns: str | Sequence[str]) -> list[str]:
    """The protocols of a dataset's canonical splits whose names fit a pattern."""
    splits = open_dataset(place).manifest.canonical_splits
    chosen = [of.protocol for of in splits if any(fnmatchcase(of.name, text) for text in _texts(patterns))]
    if not chosen:
        raise not_found(f"canonical split of {place}", str(patterns), [of.name for of in splits])
    return chosen


def plain_sweep(sweep: Sweep) -> dict[str, Any]:
    """A sweep as JSON can say it, every task by itself: what a folder of records keeps."""
    plain: dict[str, Any] = json.loads(json.dumps(sweep, default=vars))
    return plain


def kept_sweep(folder: Path) -> Sweep:
    """The sweep that a folder was begun with, its methods imported."""
    path = folder / SWEEP
    if not path.is_file():
        raise InputError(f"{folder} has no {SWEEP}: give the --folder of a sweep")
    try:
        plain = read_json(path.read_text(encoding="utf-8"))
        import_methods(plain["imports"])
        return record(Sweep, plain)
    except (KeyError, TypeError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a sweep of this version ({error}): begin another folder") from error
