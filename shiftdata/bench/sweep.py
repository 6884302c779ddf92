"""Sweeps as data: tasks x methods x backbones, and a search of the settings that each trial tries.

The first trial has the defaults, later ones random or TPE's settings. A random setting depends only on the
search's seed, the method, the trial and the hyper-parameter's name.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias

from shiftdata.baselines import TRAINING, Hyper, Method, Training, make_method
from shiftdata.baselines.heads import HEAD_METHODS
from shiftdata.bench.job import TaskSpec, import_methods, is_heads
from shiftdata.bench.records import SWEEP
from shiftdata.bench.selection import rule_of
from shiftdata.data.dataset import open_dataset
from shiftdata.data.format.typed import record
from shiftdata.errors import InputError, NotFoundError, not_found
from shiftdata.extras import require
from shiftdata.stable import hash64, uniform
from shiftdata.untrusted.texts import read_json, read_toml

#: Random trials before TPE's model.
STARTUP = 5
TRAINING_NUMBERS = frozenset(
    field.name for field in fields(Training) if field.type in ("int", "float") and field.name != "threads"
)
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

    def space_of(self, method: str) -> dict[str, Hyper]:
        """Return the ranges that a search of a method varies: the method's own, and those of `space`."""
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
    training: Training, settings: Mapping[str, float]
) -> tuple[Training, tuple[tuple[str, float], ...]]:
    """Return the training with a trial's settings, and the settings that are the method's."""
    whole = {field.name for field in fields(Training) if field.type == "int"}
    mine: dict[str, Any] = {
        name: round(value) if name in whole else value
        for name, value in settings.items()
        if name in TRAINING_NUMBERS
    }
    return replace(training, **mine), tuple(sorted((name, settings[name]) for name in settings.keys() - mine))


PRESETS = Path(__file__).parent / "presets"
#: Linear heads train on all rows as one batch, as `train_heads` does.
HEAD_TRAINING = Training(
    steps=300, batch=0, optimizer="sgd", schedule="constant", weight_decay=0.0, shift=0, evaluate_every=100
)


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method with its variant and its fixed hyper-parameters; in a sweep it is written "jtt@code"."""

    name: str
    variant: str = "fixed"
    hyper: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, hyper: Mapping[str, Mapping[str, float]]) -> MethodSpec:
        name, _, variant = text.partition("@")
        spec = cls(name=name, variant=variant or "fixed", hyper=hyper.get(text, {}))
        make_method(spec.name, variant=spec.variant, **spec.hyper)  # refuses a wrong name before training
        return spec


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Many studies with one search, to be reported under some `rules`.

    Predictions of the selected runs are stored; with `keep` "all" every prediction.
    """

    name: str
    tasks: tuple[TaskSpec, ...]
    methods: tuple[MethodSpec, ...]
    about: str = ""
    backbones: tuple[str, ...] = ("small-cnn",)
    training: Training = TRAINING
    search: Search = field(default_factory=Search)
    rules: tuple[str, ...] = ("iid",)
    keep: Literal["chosen", "all"] = "chosen"
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for rule in (*self.rules, self.search.rule):
            rule_of(rule)
        if not any(map(is_heads, self.backbones)):
            return
        for method in self.methods:
            if method.name not in HEAD_METHODS:
                hint = "Others train with `linear`."
                raise not_found("method of linear heads", method.name, HEAD_METHODS, hint)
        same = {name: getattr(HEAD_TRAINING, name) for name in ("batch", "optimizer", "schedule")}
        if same.items() - vars(self.training).items():
            raise InputError(f"the backbone heads trains with {same}: give these, or another backbone")

    def studies(self) -> Iterator[tuple[TaskSpec, MethodSpec, str]]:
        return itertools.product(self.tasks, self.methods, self.backbones)


def read_sweep(source: str | Path, datasets: Sequence[str] = ()) -> Sweep:
    """Read a sweep from a .toml file or a preset; `datasets` replaces the datasets that it names."""
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
    return sweep_of({"name": path.stem, **raw}, datasets, str(path))


def presets() -> list[str]:
    """Return the names of the sweeps that ship."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def sweep_of(raw: Mapping[str, Any], datasets: Sequence[str] = (), where: str = "the sweep") -> Sweep:
    """Make a sweep of plain data, as a .toml file has it."""
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
    start = HEAD_TRAINING if any(map(is_heads, given.get("backbones", ()))) else TRAINING
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
    try:
        return record(Sweep, read_json(json.dumps(plain, default=vars), constants=True))
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
    """Yield the tasks of an entry: for each dataset, every combination of the parameters' values."""
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
    texts = [_with_parameters(str(protocol), dict(point)) for point in points]
    for place in places:
        for text in texts if canonical is None else _canonical(place, canonical):
            yield TaskSpec(dataset=place, protocol=text, **about)


def _with_parameters(protocol: str, params: Mapping[str, Any]) -> str:
    """Put each value where `{name}` stands in joined protocols, or after the last.

    >>> _with_parameters("group-fairness k=4 mu={mu} label-shift", {"mu": 0.1, "alpha": 3})
    'group-fairness k=4 mu=0.1 label-shift alpha=3'
    """
    for name, value in params.items():
        place = f"{{{name}}}"
        protocol = protocol.replace(place, str(value)) if place in protocol else f"{protocol} {name}={value}"
    return protocol


def _canonical(place: str, patterns: str | Sequence[str]) -> list[str]:
    """Return the protocols of a dataset's canonical splits whose names match a pattern."""
    splits = open_dataset(place).manifest.canonical_splits
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
    return _typed(plain, f"{path}, of another version")
