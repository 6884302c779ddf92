"""The official metrics of tasks: a table by name, each a function from what was judged to named figures.

A figure's name has one meaning wherever it occurs. `mean`, `worst`, `worst_3`, `worst_5` are over groups;
`mean_class` over labels that have rows; `mean_domain`, `std_domain`, `worst_domain` over nuisances; `overall`
is the share of rows that are right, which some papers call accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError, not_found
from shiftdata.metrics import (
    FailurePoints,
    GroupAccuracy,
    failure_points,
    h_score,
    label_marginal,
    label_marginal_l1,
    severity_accuracy,
)
from shiftdata.metrics.adaptation import Average
from shiftdata.metrics.arrays import FloatArray, IntArray, as_floats
from shiftdata.metrics.records import Record, number, some
from shiftdata.metrics.severity import severity_steps
from shiftdata.tasks.predictions import UNKNOWN


@dataclass(frozen=True, eq=False)
class Figure(float, Record):
    """A number with its rows `n`, what it is taken `of`, and its standard error `sem` over these rows.

    It is a float, so that it compares, rounds and adds as one.
    """

    value: float
    n: int
    of: str = "rows"
    sem: float = math.nan

    def __new__(cls, value: float, *_: object, **__: object) -> Self:
        """Make the float; the dataclass sets the fields."""
        return super().__new__(cls, value)

    def __str__(self) -> str:
        error = f" ± {number(self.sem)}" if math.isfinite(self.sem) else ""
        return f"{number(self.value)}{error} (n={self.n:,}, {self.of})"


@dataclass(frozen=True, eq=False)
class Judged:
    """Rows of a set with their true and predicted labels (unknown ones as `UNKNOWN`), and counts by name.

    `known` are the labels of training, of which `expected` should be in the set; `marginal` is an estimate of
    the set's shares of labels. `step_sizes` counts the different examples of each severity.
    """

    groups: GroupAccuracy
    classes: GroupAccuracy
    domains: GroupAccuracy
    true: IntArray
    predicted: IntArray
    nuisance: IntArray
    nuisances: tuple[str, ...]
    severity: NDArray[np.float64]
    trajectory: IntArray
    known: IntArray
    expected: IntArray
    labels: int
    origin: IntArray
    step_sizes: tuple[int, ...] = ()
    marginal: Any = None

    def __len__(self) -> int:
        return len(self.true)

    @cached_property
    def failure_points(self) -> FailurePoints:
        """The failure points of every shift, by name; refused where a trajectory is not complete."""
        wrong = (self.true != self.predicted).astype(np.int64)
        points = failure_points(
            np.zeros_like(wrong), wrong, self.severity, trajectories=self.trajectory, shifts=self.nuisance
        )
        return replace(points, shifts=tuple(self.nuisances[one] for one in np.unique(self.nuisance)))


Named: TypeAlias = Iterator[tuple[str, Figure]]


def _overall(judged: Judged) -> Named:
    share, n = judged.groups.overall, len(judged)
    yield "overall", Figure(share, n, sem=math.sqrt(share * (1 - share) / (n - 1)) if n > 1 else math.nan)


def _mean(of: GroupAccuracy, what: str, m: int | None = None) -> Figure:
    """The mean over groups, or over the `m` that are worst, with the error of independent groups."""
    chosen = np.arange(len(of.n)) if m is None else np.argsort(of.accuracy, kind="stable")[:m]
    value = of.mean if m is None else of.worst_of(m)
    over = f"{len(of.n):,} {what}" if m is None else f"the {m} worst of {len(of.n):,} {what}"
    sem = math.sqrt(float((of.sem[chosen] ** 2).sum())) / len(chosen)
    return Figure(value, int(of.n[chosen].sum()), over, sem)


def _worst(of: GroupAccuracy) -> Figure:
    if of.empty:
        return Figure(math.nan, 0, f"{of.empty[0]}: no rows")
    place = int(of.accuracy.argmin())
    return Figure(of.worst, int(of.n[place]), str(of.worst_group), float(of.sem[place]))


def _plain(judged: Judged) -> Named:
    yield from _adaptation(judged)
    yield "mean", _mean(judged.groups, "groups")
    yield "worst", _worst(judged.groups)


def _fairness(judged: Judged) -> Named:
    """SMA, section 3.1.3 and appendix E.4."""
    groups = judged.groups
    yield "mean", _mean(groups, "groups")
    yield "worst", _worst(groups)
    for m in (3, 5):
        if len(groups.n) >= m:
            yield f"worst_{m}", _mean(groups, "groups", m)
    yield from _overall(judged)
    if not groups.empty:
        chance = groups.worst_by_chance()
        yield "worst_by_chance", Figure(chance.expected, len(judged), "groups that are equally hard")
        likely = chance.at_most(groups.worst)
        yield "worst_by_chance_p", Figure(likely, len(judged), "probability of a worst group this low")


def _domains(judged: Judged) -> Named:
    """NICO++, equations 7 to 9; DomainBed."""
    domains = judged.domains
    yield "mean_domain", _mean(domains, "domains")
    yield "std_domain", Figure(domains.std("nico++"), len(judged), f"{len(domains.n):,} domains")
    yield from _overall(judged)
    yield "worst_domain", _worst(domains)


def _adaptation(judged: Judged) -> Named:
    """Accuracy over rows, and over the classes that have some: a label shift may leave a class without."""
    yield from _overall(judged)
    every, there = len(judged.classes.n), judged.classes.without_empty()
    what = "classes" if len(there.n) == every else f"of {every:,} classes, those with rows"
    yield "mean_class", _mean(there, what)


def _universal(judged: Judged) -> Named:
    """The H-score over rows as in SMA's code, and over classes as in OVANet's."""
    shared = np.intersect1d(judged.known, judged.expected)
    conventions: Mapping[str, Average] = {"": "rows", "_classes": "classes"}
    for suffix, average in conventions.items():
        score = h_score(
            judged.true, judged.predicted, shared=shared.tolist(), unknown=UNKNOWN, average=average
        )
        yield f"h_score{suffix}", Figure(score.h, len(judged), f"harmonic mean, known over {average}")
        yield (
            f"known{suffix}",
            Figure(score.known, score.n_known, f"{len(shared):,} shared classes, {average}"),
        )
        if not suffix:  # the unknown are one class
            yield "unknown", Figure(score.unknown, score.n_unknown, "rows of unknown classes")


def _label_shift(judged: Judged) -> Named:
    """RLSbench: accuracy, and the l1 error of the marginal of labels, 0 to 2."""
    yield from _adaptation(judged)
    places = judged.labels + 1  # the last for unknown
    true = label_marginal(np.where(judged.true < 0, judged.labels, judged.true), places)
    if judged.marginal is None:
        of = "shares of predictions"
        estimate = label_marginal(np.where(judged.predicted < 0, judged.labels, judged.predicted), places)
    else:
        of, estimate, given = "the given marginal", np.zeros(places), as_floats("marginal", judged.marginal)
        if len(given) not in (judged.labels, len(judged.known)):
            raise InputError(
                f"marginal: {len(given)} shares; give one a label, of the dataset's {judged.labels} or the "
                f"task's {len(judged.known)}"
            )
        estimate[np.arange(judged.labels) if len(given) == judged.labels else judged.known] = given
    yield "marginal_error", Figure(label_marginal_l1(estimate, true), len(judged), of)


def _continuous(judged: Judged) -> Named:
    """CNS-Bench, appendix A: the mean over shifts at each severity, drops, failure points."""
    wrong = (judged.true != judged.predicted).astype(np.int64)
    right, n = np.zeros_like(wrong), len(judged)
    curve = severity_accuracy(right, wrong, judged.severity, shifts=judged.nuisance)
    if lost := len(judged.domains.empty):  # a promised shift without rows leaves the means undefined
        rows = ((0, lost), (0, 0))
        curve = replace(
            curve,
            shifts=(*curve.shifts, *judged.domains.empty),
            accuracy=np.pad(curve.accuracy, rows, constant_values=np.nan),
            n=np.pad(curve.n, rows),
        )
    shifts = f"mean over {len(curve.shifts):,} shifts"
    moved = _along_severities(judged, len(curve.severities))
    shifts += f", error over {len(moved):,} origins"
    for place, step in enumerate(curve.severities):
        error = math.nan if lost else _clustered(moved[:, place])
        yield f"accuracy@{step:g}", Figure(float(curve.mean[place]), judged.step_sizes[place], shifts, error)
    if curve.severities[0] == 0 and len(curve.severities) > 1:
        drops = moved[:, :1] - moved
        errors = [math.nan if lost else _clustered(one) for one in [*drops.T, drops.mean(axis=1)]]
        for place, step in enumerate(curve.severities[1:], start=1):
            size = judged.step_sizes[place]
            yield f"drop@{step:g}", Figure(float(curve.drop[place]), size, shifts, errors[place])
        over = f"{len(curve.severities)} severities, {shifts}"
        yield "mean_drop", Figure(curve.mean_drop, n, over, errors[-1])
    points = judged.failure_points
    of = f"{points.n:,} trajectories"
    yield "mean_failure_point", Figure(points.mean(), n, f"{of}, {points.beyond:g} where none")
    yield "failures", Figure(1 - points.never / points.n, n, f"{of} that fail anywhere")


def _along_severities(judged: Judged, count: int) -> FloatArray:
    """How far the rows of each origin (row) move the mean over shifts at each severity (column).

    An origin has rows in every shift and at every severity, so that it, and not a row, is what was drawn.
    """
    step = severity_steps(judged.severity)[1]
    shifts, shift = np.unique(judged.nuisance, return_inverse=True)
    cell = shift * count + step
    right = (judged.true == judged.predicted).astype(np.float64)
    n = np.bincount(cell, minlength=len(shifts) * count)
    off = right - (np.bincount(cell, right, minlength=len(n)) / np.maximum(n, 1))[cell]
    origins, origin = np.unique(judged.origin, return_inverse=True)
    moved = np.bincount(origin * count + step, off / (n[cell] * len(shifts)), minlength=len(origins) * count)
    return np.asarray(moved.reshape(len(origins), count), np.float64)


def _clustered(moved: FloatArray) -> float:
    """The standard error of a figure, from how far each origin moves it."""
    count = len(moved)
    return math.sqrt(count / (count - 1) * float((moved**2).sum())) if count > 1 else math.nan


#: Another official metric is another entry; protocols name theirs.
OFFICIAL: Mapping[str, Callable[[Judged], Named]] = {
    "fairness": _fairness,
    "domains": _domains,
    "adaptation": _adaptation,
    "universal": _universal,
    "label-shift": _label_shift,
    "continuous": _continuous,
}


def figures_of(judged: Judged, metrics: tuple[str, ...]) -> tuple[dict[str, Figure], list[str]]:
    """The figures of some official metrics (plain ones for none), and why some are missing."""
    figures: dict[str, Figure] = {}
    notes: list[str] = []
    if judged.marginal is not None and "label-shift" not in metrics:
        raise InputError("marginal= goes with a task of label shift; this one has no figure that uses it")
    for name in metrics:
        if name not in OFFICIAL:
            raise not_found("official metric", name, OFFICIAL)
    for metric in [OFFICIAL[name] for name in metrics] or [_plain]:
        try:
            for name, figure in metric(judged):
                figures[name] = figure
        except InputError as error:
            if metric is not _continuous:
                raise
            notes.append(f"no failure points: {error}")
    for what, of in (("groups", judged.groups), ("classes", judged.classes), ("domains", judged.domains)):
        if of.empty:
            notes.append(
                f"{len(of.empty):,} {what} have no rows ({some(of.empty)}): what needs them is undefined, "
                "without_empty() leaves them out"
            )
    return figures, notes
