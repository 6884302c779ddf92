"""Sweeps as data: tasks x methods x backbones, and a search of the settings that each trial tries.

The first trial has the defaults, later ones random or TPE's settings. A random setting depends only on the
search's seed, the method, the trial and the hyper-parameter's name.
"""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from shiftdata.baselines import Hyper, Method, Training, make_method
from shiftdata.baselines.heads import HEAD_METHODS
from shiftdata.bench.job import (
    SweepTraining,
    TaskSpec,
    import_methods,
    is_heads,
    method_facts,
)
from shiftdata.bench.records import PREDICT, SWEEP
from shiftdata.bench.selection import rule_of
from shiftdata.data.dataset import open_dataset
from shiftdata.data.format.typed import record
from shiftdata.errors import InputError, MissingExtraError, NotFoundError, StorageError, not_found
from shiftdata.extras import require
from shiftdata.stable import hash64, ranks, uniform
from shiftdata.untrusted.texts import read_json, read_toml

#: Random trials before TPE's model.
STARTUP = 5
TRAINING_NUMBERS = frozenset(
    field.name for field in fields(Training) if field.type in ("int", "float") and field.name != "threads"
)
#: The errors of a dataset that cannot be opened.
NOT_HERE = (NotFoundError, StorageError, MissingExtraError)
Typed = TypeVar("Typed")
#: The settings of trials, each with its score.
Past: TypeAlias = Sequence[tuple[Mapping[str, float], float]]


@dataclass(frozen=True, kw_only=True)
class Search:
    """The choice of the settings of a study's trials.

    Each trial has `seeds` seeds; with `seeds_of` "best" each has one, and the trial that `rule` selects gets
    the others. TPE maximizes the score of `rule`. `space` has ranges of training settings (`learning_rate`,
    ..), and replaces ranges of methods.
    """

    kind: Literal["defaults", "random", "tpe"] = "defaults"
    trials: int = 1
    seeds: int = 1
    seeds_of: Literal["each", "best"] = "each"
    seed: int = 0
    rule: str = "iid"
    space: Mapping[str, Hyper] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.trials < 1 or self.seeds < 1:
            raise InputError(f"trials={self.trials}, seeds={self.seeds}: give 1 or more of each")
        if self.kind == "tpe" and self.rule == "last":
            raise InputError("tpe needs a score of each run, and `last` has none: take another rule")
        if self.kind == "defaults" and self.trials > 1:
            raise InputError("search 'defaults' has one trial: choose random or tpe for more")

    def share(self, share: float) -> Search:
        """Return a part of the search: the first trials, and of less than one trial the first seeds.

        Further seeds of the best go first: which trial is the best depends on all of them.
        """
        if self.seeds_of == "best":
            return replace(self, trials=max(1, math.floor(share * self.trials)), seeds=1)
        seeds = self.seeds if share * self.trials >= 1 else math.floor(share * self.trials * self.seeds)
        return replace(self, trials=max(1, math.floor(share * self.trials)), seeds=max(1, seeds))

    def space_of(self, method: str) -> dict[str, Hyper]:
        """Return the ranges that a search of a method varies: the method's own, and those of `space`."""
        if method == PREDICT:
            return {}
        parts = [part for part in make_method(method).modules() if isinstance(part, Method)]  # wrappers first
        own = {name: hyper for part in parts for name, hyper in part.space().items()}
        ranged = {name: hyper for name, hyper in own.items() if hyper.choices or hyper.low is not None}
        return ranged | {
            name: hyper for name, hyper in self.space.items() if name in own or name in TRAINING_NUMBERS
        }


def drawn(space: Mapping[str, Hyper], seed: int, method: str, trial: int) -> dict[str, float]:
    """Draw the settings of a random trial; trial 0 has the defaults."""
    if trial == 0:
        return {}
    return {name: _at(hyper, uniform(seed, "search", method, trial, name)) for name, hyper in space.items()}


def _at(hyper: Hyper, share: float) -> float:
    """Return the value at a share (0 to 1) of a range."""
    if hyper.choices:
        return hyper.choices[int(share * len(hyper.choices))]
    low, high = hyper.low, hyper.high
    assert low is not None  # ranges have both
    assert high is not None
    return math.exp(math.log(low) + share * math.log(high / low)) if hyper.log else low + share * (high - low)


def suggested(space: Mapping[str, Hyper], seed: int, names: tuple[str, str], past: Past) -> dict[str, float]:
    """Return TPE's settings for the next trial, by optuna.

    `names` are the study and the method, `past` the settings and score of each trial (nan if it failed).
    Optuna gets all trials again each time: its only memory is the records, and a killed sweep goes on.
    The defaults may lie outside their ranges, so optuna never sees them.
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
    number = hash64(seed, "tpe", names[0], trial) % 2**32
    sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=STARTUP)
    study, states = optuna.create_study(direction="maximize", sampler=sampler), optuna.trial.TrialState
    for settings, score in past:
        if settings.keys() == space.keys():
            ended = {"state": states.FAIL} if math.isnan(score) else {"value": score}
            add = optuna.trial.create_trial(params=dict(settings), distributions=spaces, **ended)
            study.add_trial(add)
    return {name: float(value) for name, value in study.ask(spaces).params.items()}


def applied(
    training: SweepTraining, settings: Mapping[str, float]
) -> tuple[SweepTraining, tuple[tuple[str, float], ...]]:
    """Return the training with a trial's settings, and the settings that are the method's."""
    whole = {field.name for field in fields(Training) if field.type == "int"}
    mine: dict[str, Any] = {
        name: round(value) if name in whole else value
        for name, value in settings.items()
        if name in TRAINING_NUMBERS
    }
    return replace(training, **mine), tuple(sorted((name, settings[name]) for name in settings.keys() - mine))


PRESETS = Path(__file__).parent / "presets"
TRAINING = SweepTraining()
#: Linear heads train on all rows as one batch, as `train_heads` does.
HEAD_TRAINING = SweepTraining(
    steps=300, batch=0, optimizer="sgd", schedule="constant", weight_decay=0.0, shift=0, evaluate_every=100
)


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method with its variant and its fixed hyper-parameters; in a sweep it is written "jtt@code"."""

    name: str
    variant: str = "fixed"
    hyper: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.name if self.variant == "fixed" else f"{self.name}@{self.variant}"

    @classmethod
    def of(cls, text: str, hyper: Mapping[str, Mapping[str, float]]) -> MethodSpec:
        name, _, variant = text.partition("@")
        spec = cls(name=name, variant=variant or "fixed", hyper=hyper.get(text, {}))
        method_facts(spec.name, spec.variant, spec.hyper)  # refuses a wrong name before training
        return spec


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Many studies with one search, to be reported under some `rules`.

    Predictions of the selected runs are stored; with `keep` "all" every prediction. `fraction` is the share
    of a larger sweep that this is; `stand_ins` has the datasets that it replaces, and what stands in.
    """

    name: str
    tasks: tuple[TaskSpec, ...]
    methods: tuple[MethodSpec, ...]
    about: str = ""
    backbones: tuple[str, ...] = ("small-cnn",)
    training: SweepTraining = TRAINING
    search: Search = field(default_factory=Search)
    rules: tuple[str, ...] = ("iid",)
    keep: Literal["chosen", "all"] = "chosen"
    imports: tuple[str, ...] = ()
    fraction: float = 1.0
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rule in (*self.rules, self.search.rule):
            rule_of(rule)
        for spec, method, backbone in self.studies():
            if is_heads(backbone):
                _check_heads(method, spec.training or self.training)

    def studies(self) -> Iterator[tuple[TaskSpec, MethodSpec, str]]:
        """Yield the task, the method and the backbone of each study."""
        for spec in self.tasks:
            methods = [
                method
                for method in self.methods
                if not spec.methods or {method.name, method.text} & {*spec.methods}
            ]
            yield from itertools.product([spec], methods, spec.backbones or self.backbones)

    @property
    def runs_of_a_study(self) -> int:
        """The runs of a study when it is complete."""
        search = self.search
        return search.trials * search.seeds if search.seeds_of == "each" else search.trials + search.seeds - 1

    def share(self, fraction: float) -> Sweep:
        """Return a part of the sweep: every method on a share of the tasks, at least on one.

        A larger part contains a smaller. Tasks are taken by stable hash, of each dataset about as large a
        share. Where the share is of less than one task, its trials are cut, then its seeds.
        """
        if not 0 < fraction <= 1:
            raise InputError(f"a fraction is a number above 0, and 1 is the whole sweep: got {fraction:g}")
        tasks, wanted = _spread(self.tasks), fraction * len(self.tasks)
        chosen = set(tasks[: max(1, math.floor(wanted + 1e-9))])
        search = self.search if wanted >= 1 else self.search.share(wanted)
        kept = tuple(task for task in self.tasks if task in chosen)
        return replace(self, tasks=kept, search=search, fraction=fraction)

    def without(self, datasets: Collection[str]) -> Sweep:
        """Return the sweep without the tasks of some datasets."""
        tasks = tuple(task for task in self.tasks if task.dataset not in datasets)
        if not tasks:
            raise InputError(f"no dataset of {self.name} can be opened here: {', '.join(datasets)}")
        return replace(self, tasks=tasks)


def _check_heads(method: MethodSpec, training: SweepTraining) -> None:
    if method.name not in HEAD_METHODS:
        raise not_found("method of linear heads", method.name, HEAD_METHODS, "Others train with `linear`.")
    same = {name: getattr(HEAD_TRAINING, name) for name in ("batch", "optimizer", "schedule", "epochs")}
    if same.items() - vars(training).items():
        raise InputError(f"the backbone heads trains with {same}: give these, or another backbone")


def _spread(tasks: Sequence[TaskSpec]) -> list[TaskSpec]:
    """Order tasks so that each beginning of the list has about the same share of each dataset.

    A dataset's first task is one with the most methods: a small part then compares methods.
    """
    of: dict[str, list[TaskSpec]] = {}
    for task in tasks:
        of.setdefault(task.dataset, []).append(task)
    places = {}
    for dataset, same in of.items():
        names = [f"{task.base} {task.protocol} {task.unlabelled}" for task in same]
        rank = dict(zip(same, ranks(names, "share", dataset).tolist(), strict=True))
        first = min(same, key=lambda task: (-len(task.methods) if task.methods else -math.inf, rank[task]))
        for place, task in enumerate(sorted(same, key=lambda task: (task is not first, rank[task]))):
            places[task] = (place + uniform("share", dataset)) / len(same)
    return sorted(places, key=lambda task: (places[task], task.dataset))


def read_sweep(source: str | Path, datasets: Sequence[str] = (), *, stand_ins: bool = False) -> Sweep:
    """Read a sweep from a .toml file or a preset.

    `datasets` replaces the datasets that it names; with `stand_ins` its tasks' own stand-ins do.
    """
    path = Path(source)
    if path.suffix != ".toml":
        if str(source) not in presets():
            raise not_found("preset", str(source), presets(), "Or give a .toml file.")
        path = PRESETS / f"{source}.toml"
    if not path.exists():
        hint = f"give an existing .toml file, or a preset: {', '.join(presets())}"
        raise NotFoundError(f"there is no sweep file {path}: {hint}")
    try:
        raw = read_toml(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a sweep: {error}") from error
    return sweep_of({"name": path.stem, **raw}, datasets, str(path), stand_ins=stand_ins)


def presets() -> list[str]:
    """Return the names of the sweeps that ship."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def sweep_of(
    raw: Mapping[str, Any],
    datasets: Sequence[str] = (),
    where: str = "the sweep",
    *,
    stand_ins: bool = False,
) -> Sweep:
    """Make a sweep of plain data, as a .toml file has it."""
    keys = {field.name for field in fields(Sweep)} - {"fraction"} | {"datasets", "hyper", "stand_ins"}
    for key in raw:
        if key not in keys:
            raise not_found(f"key of {where}", key, keys)
    for key in ("tasks", "methods", "backbones"):
        if not raw.get(key, key == "backbones"):
            raise InputError(f"{where} has no {key}: see `shiftdata sweep --help`")
    given = {name: value for name, value in raw.items() if name not in ("datasets", "hyper", "stand_ins")}
    given |= {name: _texts(raw[name]) for name in ("backbones", "rules", "imports") if name in raw}
    import_methods(given.get("imports", ()))
    hyper, search = raw.get("hyper", {}), raw.get("search", {})
    places = datasets or raw.get("datasets", ())
    entries: list[dict[str, Any]] = []
    replaced: dict[str, str] = {}
    for each in raw["tasks"]:
        stand_in = _stand_in(each, raw.get("stand_ins", {})) if stand_ins else {}
        entries.append(_entry(each, stand_in, places, given, where))
        if "dataset" in stand_in:
            name = ", ".join(entries[-1]["dataset"])
            replaced |= dict.fromkeys(_texts(each.get("dataset", places)), name)
    methods = [*dict.fromkeys([*raw["methods"], *(text for entry in entries for text in entry["methods"])])]
    if len(methods) > len(raw["methods"]):  # those that an entry adds are its own alone
        entries = [entry | {"methods": entry["methods"] or tuple(raw["methods"])} for entry in entries]
    for text in hyper:
        if text not in methods:
            raise not_found(f"method of [hyper] in {where}", text, methods)
    given |= {
        "tasks": list(dict.fromkeys(spec for entry in entries for spec in _tasks(entry, where))),
        "methods": [MethodSpec.of(text, hyper) for text in methods],
        "training": vars(_start(given.get("backbones", ()))) | raw.get("training", {}),
        "search": vars(Search()) | search | {"space": _space(search.get("space", {}), where)},
        "stand_ins": replaced,
    }
    plain = plain_sweep(Sweep(name="", tasks=(), methods=given["methods"]))
    return _typed(Sweep, plain | given, where)


def _stand_in(entry: Mapping[str, Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what replaces an entry's keys with --stand-ins: a table of [stand_ins], by its name."""
    name = entry.get("stand_in")
    if name is not None and name not in named:
        raise not_found("stand-in", name, named, "A stand-in is a table [stand_ins.NAME].")
    return named[name] if name else {}


def _entry(
    given: Mapping[str, Any],
    stand_in: Mapping[str, Any],
    places: Sequence[str],
    sweep: Mapping[str, Any],
    where: str,
) -> dict[str, Any]:
    """Return an entry of [[tasks]] with its datasets; what the stand-in leaves empty goes.

    The training of a stand-in is all its own, that of an entry changes the sweep's.
    """
    entry = {"methods": (), "backbones": (), **given, **stand_in}
    entry = {name: value for name, value in entry.items() if value != "" and name != "stand_in"}
    entry |= {name: _texts(entry[name]) for name in ("methods", "backbones")}
    entry["dataset"] = _texts(entry.get("dataset", places))
    below = {} if "training" in stand_in else sweep.get("training", {})
    if "training" in entry:
        start = _start(entry["backbones"] or sweep.get("backbones", ()))
        training = vars(start) | below | entry["training"]
        entry["training"] = _typed(SweepTraining, training, f"a task's training in {where}")
    return entry


def _start(backbones: Sequence[str]) -> SweepTraining:
    return HEAD_TRAINING if any(map(is_heads, backbones)) else TRAINING


def _typed(kind: type[Typed], plain: Mapping[str, Any], where: str) -> Typed:
    try:
        return record(kind, read_json(json.dumps(plain, default=vars), constants=True))
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


def _tasks(given: Mapping[str, Any], where: str) -> Iterator[TaskSpec]:
    """Yield the tasks of an entry: for each dataset, every combination of the parameters' values."""
    params = dict(given)
    own = ("base", "unlabelled", "on_empty", "methods", "backbones", "training")
    about = {name: params.pop(name) for name in own if name in params}
    places, protocol, canonical = (params.pop(name, None) for name in ("dataset", "protocol", "canonical"))
    if (protocol is None) == (canonical is None):
        raise InputError(f'a task of {where} needs protocol = or canonical =, such as canonical = "uda_*"')
    if not places:
        raise InputError(f"{where} names no dataset: give datasets = [...], or --dataset")
    values = [value if isinstance(value, list) else [value] for value in params.values()]
    texts = [
        _with_parameters(name, dict(zip(params, point, strict=True)))
        for name in _texts(protocol or ())
        for point in itertools.product(*values)
    ]
    every: Iterable[list[str]] = itertools.repeat(texts)
    if canonical is not None:
        with ThreadPoolExecutor() as pool:  # a server that does not answer is waited for once
            every = pool.map(_canonical, places, itertools.repeat(canonical))
    for place, of in zip(places, every, strict=False):
        for text in of:
            yield TaskSpec(dataset=place, protocol=text, **about)


def _with_parameters(protocol: str, params: Mapping[str, Any]) -> str:
    """Put each value where `{name}` stands in joined protocols, or after the last.

    >>> _with_parameters("group-fairness k=4 mu={mu} label-shift", {"mu": 0.1, "target": "Real World"})
    "group-fairness k=4 mu=0.1 label-shift 'target=Real World'"
    """
    for name, value in params.items():
        place = f"{{{name}}}"
        if place in protocol:
            protocol = protocol.replace(place, shlex.quote(str(value)))
        else:
            protocol = f"{protocol} {shlex.quote(f'{name}={value}')}"
    return protocol


def faults(datasets: Iterable[str]) -> dict[str, str]:
    """Return the datasets that cannot be opened here, and why."""
    names = list(dict.fromkeys(datasets))
    with ThreadPoolExecutor() as pool:
        return {name: why for name, why in zip(names, pool.map(_fault, names), strict=True) if why}


def _fault(dataset: str) -> str:
    try:
        open_dataset(dataset)
    except NOT_HERE as error:
        return str(error).partition("Looked in:")[0].strip()
    return ""


def _canonical(place: str, patterns: str | Sequence[str]) -> list[str]:
    """Return the protocols of a dataset's canonical splits whose names match a pattern.

    Those of a dataset that is not here are not known: the pattern stands for them.
    """
    try:
        splits = open_dataset(place).manifest.canonical_splits
    except NOT_HERE:
        return [f"canonical {patterns}"]
    chosen = [
        split.protocol for split in splits if any(fnmatchcase(split.name, text) for text in _texts(patterns))
    ]
    if not chosen:
        raise not_found(f"canonical split of {place}", str(patterns), [split.name for split in splits])
    return chosen


def plain_sweep(sweep: Sweep) -> dict[str, Any]:
    """Return a sweep as JSON stores it in a folder of records, with every task apart."""
    plain: dict[str, Any] = read_json(json.dumps(sweep, default=vars), constants=True)
    return plain


def folder_sweep(folder: Path) -> Sweep:
    """Read the sweep of a folder, and import its methods."""
    path = folder / SWEEP
    if not path.is_file():
        raise InputError(f"{folder} has no {SWEEP}: give the --folder of a sweep")
    plain = read_json(path)
    import_methods(plain["imports"])
    return _typed(Sweep, plain, f"{path}, of another version")
