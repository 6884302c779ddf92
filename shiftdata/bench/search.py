"""Which settings a trial tries: the defaults first, then drawn ones, the points of a grid, or TPE's.

A drawn number depends on the search's seed, the method, the trial and the hyper-parameter's name, and on
nothing else: another hyper-parameter, trial or method changes none of the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from shiftdata.baselines import Hyper, Training, make_method
from shiftdata.baselines.method import Wrapper
from shiftdata.errors import InputError, not_found
from shiftdata.extras import require
from shiftdata.stable import hash64, uniform

Kind: TypeAlias = Literal["defaults", "random", "grid", "tpe"]
KINDS: tuple[Kind, ...] = ("defaults", "random", "grid", "tpe")
#: Trials that TPE draws at random before it models what came of them.
STARTUP = 5
TRAINING_NUMBERS = frozenset(
    one.name for one in fields(Training) if one.type in ("int", "float") and one.name != "threads"
)


@dataclass(frozen=True, kw_only=True)
class Search:
    """How the settings of a study's trials are chosen.

    `seeds` are how many each trial has; with `seeds_of` "best" the trials have one each, and only the chosen
    one gets the others. `rule` chooses it, and is what TPE makes larger. `storage`, an optuna storage such as
    "sqlite:///trials.db", is shown TPE's trials for optuna's own tools, and never read. `space` gives ranges
    to numbers of the training (`learning_rate`, `weight_decay`, ..), and replaces those of methods.
    """

    kind: Kind = "defaults"
    trials: int = 1
    seeds: int = 1
    seeds_of: Literal["each", "best"] = "each"
    seed: int = 0
    rule: str = "iid"
    storage: str = ""
    space: Mapping[str, Hyper] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise not_found("search", self.kind, KINDS)
        if self.seeds_of not in ("each", "best"):
            raise not_found("seeds_of", self.seeds_of, ("each", "best"))
        if self.trials < 1 or self.seeds < 1:
            raise InputError(f"trials={self.trials}, seeds={self.seeds}: give 1 or more of each")
        if self.kind == "tpe" and self.rule in ("last", "leave-one-domain-out"):
            raise InputError(
                f"tpe needs a score of each run, and the rule {self.rule} gives none: take another"
            )
        if self.kind == "defaults" and self.trials > 1:
            raise InputError("search 'defaults' has one trial: choose random, grid or tpe for more")

    def space_of(self, method: str, heads: bool) -> dict[str, Hyper]:
        """What a search of a method varies: its own numbers that have a range, and those of `space`."""
        own = method_space(method)
        if heads:
            own = {name: one for name, one in own.items() if name in make_method(method).hyper}
        ranged = {name: one for name, one in own.items() if one.choices or one.low is not None}
        mine = {name: one for name, one in self.space.items() if name in own or name in TRAINING_NUMBERS}
        return ranged | mine

    def grid(self, method: str, heads: bool) -> list[dict[str, float]]:
        """Every point of the grid of `space`: what has choices; the rest keeps its default."""
        space = {name: one for name, one in self.space_of(method, heads).items() if name in self.space}
        for name, one in space.items():
            if not one.choices:
                raise InputError(f"a grid needs the values of {name}, as in {name} = [0.1, 0.01]")
        points = itertools.product(*(one.choices for one in space.values()))
        return [dict(zip(space, point, strict=True)) for point in points]


def method_space(name: str) -> dict[str, Hyper]:
    """The hyper-parameters of a method and of the wrappers around it."""
    made = make_method(name)
    found: dict[str, Hyper] = {}
    while isinstance(made, Wrapper):
        found |= made.space()
        made = made.inner
    return found | made.space()


def drawn(space: Mapping[str, Hyper], seed: int, method: str, trial: int) -> dict[str, float]:
    """The settings of a random trial; trial 0 has the defaults."""
    if trial == 0:
        return {}
    return {name: _at(one, uniform(seed, "search", method, trial, name)) for name, one in space.items()}


def _at(one: Hyper, share: float) -> float:
    """The value at a share of a range."""
    if one.choices:
        return one.choices[int(share * len(one.choices))]
    low, high = _ends(one)
    return math.exp(math.log(low) + share * math.log(high / low)) if one.log else low + share * (high - low)


def _ends(one: Hyper) -> tuple[float, float]:
    assert one.low is not None  # ranges have both
    assert one.high is not None
    return one.low, one.high


def suggested(
    space: Mapping[str, Hyper],
    seed: int,
    names: tuple[str, str],
    past: Sequence[tuple[Mapping[str, float], float]],
) -> dict[str, float]:
    """TPE's settings for the trial that follows some others, by optuna.

    `names` are the study and the method, `past` the settings and the score of each trial so far (nan where it
    failed). The study gets all of it anew, so that records are its only memory: a sweep that was killed
    goes on as if it had not been.
    """
    trial = len(past)
    if trial < STARTUP:
        return drawn(space, seed, names[1], trial)
    optuna = _optuna()
    spaces = {name: _distribution(optuna, one) for name, one in space.items()}
    sampler = optuna.samplers.TPESampler(
        seed=hash64(seed, "tpe", names[0], trial) % 2**32, n_startup_trials=STARTUP
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.add_trials(_trials(optuna, space, past))
    return {name: float(value) for name, value in study.ask(spaces).params.items()}


def show_trials(
    storage: str, name: str, space: Mapping[str, Hyper], past: Sequence[tuple[Mapping[str, float], float]]
) -> None:
    """Put the trials of a study that it does not have yet into an optuna storage."""
    optuna = _optuna()
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    study.add_trials(_trials(optuna, space, past)[len(study.get_trials(deepcopy=False)) :])


def _optuna() -> Any:
    optuna = require("optuna", "the search 'tpe'")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _trials(
    optuna: Any, space: Mapping[str, Hyper], past: Sequence[tuple[Mapping[str, float], float]]
) -> list[Any]:
    """Settings and scores as optuna has them; without the defaults, which need not be in their ranges."""
    spaces = {name: _distribution(optuna, one) for name, one in space.items()}
    states = optuna.trial.TrialState
    return [
        optuna.trial.create_trial(
            params=dict(settings),
            distributions=spaces,
            value=None if math.isnan(score) else score,
            state=states.FAIL if math.isnan(score) else states.COMPLETE,
        )
        for settings, score in past
        if settings.keys() == space.keys()
    ]


def _distribution(optuna: Any, one: Hyper) -> Any:
    if one.choices:
        return optuna.distributions.CategoricalDistribution(one.choices)
    return optuna.distributions.FloatDistribution(*_ends(one), log=one.log)


def applied(
    training: Training, settings: Mapping[str, float]
) -> tuple[Training, tuple[tuple[str, float], ...]]:
    """A training with a trial's settings, and those settings that are the method's."""
    whole = {one.name for one in fields(Training) if one.type == "int"}
    mine = {
        name: round(value) if name in whole else value
        for name, value in settings.items()
        if name in TRAINING_NUMBERS
    }
    other = tuple(sorted((name, value) for name, value in settings.items() if name not in mine))
    return replace(training, **mine), other  # type: ignore[arg-type]
