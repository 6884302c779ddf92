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
from shiftdata.baselines.heads import HEAD_METHODS
from shiftdata.baselines.method import Wrapper
from shiftdata.errors import InputError, not_found
from shiftdata.extras import require
from shiftdata.stable import hash64, uniform

Kind: TypeAlias = Literal["defaults", "random", "grid", "tpe"]
KINDS: tuple[Kind, ...] = ("defaults", "random", "grid", "tpe")
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
            own = {name: hyper for name, hyper in own.items() if name in HEAD_METHODS[method].hyper}
        ranged = {name: hyper for name, hyper in own.items() if hyper.choices or hyper.low is not None}
        return ranged | {
            name: hyper for name, hyper in self.space.items() if name in own or name in TRAINING_NUMBERS
        }

    def grid(self, method: str, heads: bool) -> list[dict[str, float]]:
        """Every point of the grid of `space`: what has choices; the rest keeps its default."""
        space = {name: hyper for name, hyper in self.space_of(method, heads).items() if name in self.space}
        for name, hyper in space.items():
            if not hyper.choices:
                raise InputError(f"a grid needs the values of {name}, as in {name} = [0.1, 0.01]")
        points = itertools.product(*(hyper.choices for hyper in space.values()))
        return [dict(zip(space, point, strict=True)) for point in points]


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
    low, high = _ends(hyper)
    return math.exp(math.log(low) + share * math.log(high / low)) if hyper.log else low + share * (high - low)


def _ends(hyper: Hyper) -> tuple[float, float]:
    assert hyper.low is not None  # ranges have both
    assert hyper.high is not None
    return hyper.low, hyper.high


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
        else optuna.distributions.FloatDistribution(*_ends(hyper), log=hyper.log)
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
