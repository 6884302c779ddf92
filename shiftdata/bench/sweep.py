"""Sweeps as data: tasks x methods x backbones, and a search of the settings that each trial tries.

Trials try the defaults first, then drawn settings or TPE's. A drawn number depends on
the search's seed, the method, the trial and the hyper-parameter's name, and on nothing else: another
hyper-parameter, trial or method changes none of the others.
"""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias

from shiftdata.baselines import TRAINING, Hyper, Training, make_method
from shiftdata.baselines.heads import HEAD_METHODS
from shiftdata.baselines.method import Wrapper
from shiftdata.bench.job import HEADS, TaskSpec, import_methods
from shiftdata.bench.records import SWEEP
from shiftdata.bench.selection import rule_of
from shiftdata.data.dataset import open_dataset
from shiftdata.data.format.typed import record
from shiftdata.errors import InputError, NotFoundError, not_found
from shiftdata.extras import require
from shiftdata.stable import hash64, uniform

Kind: TypeAlias = Literal["defaults", "random", "tpe"]
#: Trials that TPE draws at random before it models what came of them.
STARTUP = 5
TRAINING_NUMBERS = frozenset(
    field.name for field in fields(Training) if field.type in ("int", "float") and field.name != "threads"
)
#: The settings of trials, each with its score.
Past: TypeAlias = Sequence[tuple[Mapping[str, float], float]]


@dataclass(frozen=True, kw_only=True)
class Search:
    """How the settings of a study's trials are chosen.

    `seeds` are how many each trial has; with `seeds_of` "best" the trials have one each, and only the chosen
    one gets the others. `rule` chooses it, and is what TPE makes larger. `space` gives ranges to numbers of
    the training (`learning_rate`, `weight_decay`, ..), and replaces those of methods.
    """

    kind: Kind = "defaults"
    trials: int = 1
    seeds: int = 1
    seeds_of: Literal["each", "best"] = "each"
    seed: int = 0
    rule: str = "iid"
    space: Mapping[str, Hyper] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.trials < 1 or self.seeds < 1:
            raise InputError(f"trials={self.trials}, seeds={self.seeds}: give 1 or more of each")
        if self.kind == "tpe" and self.rule in ("last", "leave-one-domain-out"):
            raise InputError(f"tpe needs a score of each run, which {self.rule} gives not: take another rule")
        if self.kind == "defaults" and self.trials > 1:
            raise InputError("search 'defaults' has one trial: choose random or tpe for more")

    def space_of(self, method: str) -> dict[str, Hyper]:
        """What a search of a method varies: its own numbers that have a range, and those of `space`."""
        own = method_space(method)
        ranged = {name: hyper for name, hyper in own.items() if hyper.choices or hyper.low is not None}
        return ranged | {
            name: hyper for name, hyper in self.space.items() if name in own or name in TRAINING_NUMBERS
        }


def method_space(name: str) -> dict[str, Hyper]:
    """The hyper-parameters of a method and of the wrappers around it."""
    method = make_method(name)
    space: dict[str, Hyper] = {}
    while isinstance(method, Wrapper):
        space |= method.space()
        method = method.inner
    return space | method.space()


def drawn(space: Mapping[str, Hyper], seed: int, method: str, trial: int) -> dict[str, float]:
    """The settings of a random trial; trial 0 has the defaults."""
    if trial == 0:
        return {}
    return {name: _at(hyper, uniform(seed, "search", method, trial, name)) for name, hyper in space.items()}


def _at(hyper: Hyper, share: float) -> float:
    """The value at a share of a range."""
    if hyper.choices:
        return hyper.choices[int(share * len(hyper.choices))]
    assert hyper.low is not None  # ranges have both
    assert hyper.high is not None
    ratio, width = hyper.high / hyper.low if hyper.log else 1.0, hyper.high - hyper.low
    return math.exp(math.log(hyper.low) + share * math.log(ratio)) if hyper.log else hyper.low + share * width


def suggested(space: Mapping[str, Hyper], seed: int, names: tuple[str, str], past: Past) -> dict[str, float]:
    """TPE's settings for the trial that follows some others, by optuna.

    `names` are the study and the method, `past` the settings and the score of each trial so far (nan where it
    failed). The study gets all of it again each time, so that records are its only memory: a sweep that was
    killed goes on as if it had not been. The defaults need not be in their ranges, so optuna never sees them.
    """
    trial = len(past)
    if trial < STARTUP:
        return drawn(space, seed, names[1], trial)
    optuna = require("optuna", "the search 'tpe'")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spaces = {
        name: optuna.distributions.CategoricalDistribution(hyper.choices)
        if hyper.choices
        else optuna.distributions.FloatDistribution(hyper.low, hyper.high, log=hyper.log)
        for name, hyper in space.items()
    }
    sampler = optuna.samplers.TPESampler(
        seed=hash64(seed, "tpe", names[0], trial) % 2**32, n_startup_trials=STARTUP
    )
    study, states = optuna.create_study(direction="maximize", sampler=sampler), optuna.trial.TrialState
    for settings, score in past:
        if settings.keys() == space.keys():
            failed = math.isnan(score)
            study.add_trial(
                optuna.trial.create_trial(
                    params=dict(settings),
                    distributions=spaces,
                    value=None if failed else score,
                    state=states.FAIL if failed else states.COMPLETE,
                )
            )
    return {name: float(value) for name, value in study.ask(spaces).params.items()}


def applied(
    training: Training, settings: Mapping[str, float]
) -> tuple[Training, tuple[tuple[str, float], ...]]:
    """A training with a trial's settings, and those settings that are the method's."""
    whole = {field.name for field in fields(Training) if field.type == "int"}
    mine: dict[str, Any] = {
        name: round(value) if name in whole else value
        for name, value in settings.items()
        if name in TRAINING_NUMBERS
    }
    return replace(training, **mine), tuple(sorted((name, settings[name]) for name in settings.keys() - mine))


PRESETS = Path(__file__).parent / "presets"
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
    by, so that others can repeat the selection, or "all". With the rule leave-one-domain-out each trial is
    trained without each training domain as well.
    """

    name: str
    tasks: tuple[TaskSpec, ...]
    methods: tuple[MethodSpec, ...]
    about: str = ""
    backbones: tuple[str, ...] = ("small-cnn",)
    training: Training = TRAINING
    search: Search = field(default_factory=Search)
    rules: tuple[str, ...] = ("iid",)
    keep: Literal["chosen", "select", "all"] = "chosen"
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for rule in (*self.rules, self.search.rule):
            rule_of(rule)
        if HEADS in self.backbones:
            self._check_heads()

    def _check_heads(self) -> None:
        for method in self.methods:
            if method.name not in HEAD_METHODS:
                hint = "Others train with `linear`."
                raise not_found("method of linear heads", method.name, HEAD_METHODS, hint)
        same = {name: getattr(HEAD_TRAINING, name) for name in ("batch", "optimizer", "schedule")}
        if any(getattr(self.training, name) != value for name, value in same.items()):
            raise InputError(f"the backbone heads trains with {same}: give these, or another backbone")

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
    for key in ("tasks", "methods", "backbones"):
        if not raw.get(key, key == "backbones"):
            raise InputError(f"{where} has no {key}: see `shiftdata sweep --help`")
    given = {name: value for name, value in raw.items() if name not in ("datasets", "hyper")}
    given |= {name: _texts(raw[name]) for name in ("backbones", "rules", "imports") if name in raw}
    import_methods(given.get("imports", ()))
    hyper, search = raw.get("hyper", {}), raw.get("search", {})
    for text in hyper:
        if text not in raw["methods"]:
            raise not_found(f"method of [hyper] in {where}", text, raw["methods"])
    start = HEAD_TRAINING if HEADS in given.get("backbones", ()) else TRAINING
    places = datasets or raw.get("datasets", ())
    given |= {
        "tasks": list(dict.fromkeys(spec for entry in raw["tasks"] for spec in _tasks(entry, places, where))),
        "methods": [MethodSpec.of(text, hyper) for text in raw["methods"]],
        "training": vars(start) | raw.get("training", {}),
        "search": vars(Search()) | search | {"space": _space(search.get("space", {}), where)},
    }
    plain = plain_sweep(Sweep(name="", tasks=given["tasks"], methods=given["methods"]))
    return _typed(plain | given, where)


def _typed(plain: Mapping[str, Any], where: str) -> Sweep:
    """The sweep of plain data that has every field."""
    try:
        return record(Sweep, json.loads(json.dumps(plain, default=vars)))
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}") from error


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _space(given: Mapping[str, Any], where: str) -> dict[str, Hyper]:
    space = {}
    for name, values in given.items():
        if isinstance(values, list):
            space[name] = Hyper(values[0], choices=tuple(values))
        elif {"low", "high"} <= set(values) <= {"low", "high", "log"}:
            space[name] = Hyper(values["low"], **values)
        else:
            raise InputError(f"{where}: the space of {name} is a list, or low, high and log, got {values}")
    return space


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
    plain = json.loads(path.read_text(encoding="utf-8"))
    import_methods(plain["imports"])
    return _typed(plain, f"{path}, of another version")
