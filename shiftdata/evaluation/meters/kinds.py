"""The kinds of shift between the training and the test set of a task, each with a meter.

What may change is p(label), p(nuisance | label), which labels and nuisances there are, how strong the
nuisance is, and, on features, p(x) and p(label | x). The names are the field's: label, covariate and concept
shift (J. G. Moreno-Torres et al., Pattern Recognition 45, 2012); new domains and subpopulations as in WILDS
(P. W. Koh et al., ICML 2021); spurious correlation as the mutual information of label and attribute (Y. Yang
et al., Change is hard, ICML 2023); covariate and concept shift on features as in NICO++.

Meters of metadata are exact for the rows at hand. Their intervals, and those of features, are for what more
origins of the same kind would give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.data.metadata.folds import hashes64
from shiftdata.errors import InputError
from shiftdata.evaluation.meters.concept import concept_shift_on_features
from shiftdata.evaluation.meters.covariate import covariate_shift
from shiftdata.evaluation.meters.fits import COMPONENTS
from shiftdata.evaluation.meters.sides import FEWEST_ROWS, GROUPS, Sides, jackknifed, margin
from shiftdata.evaluation.metrics import Interval
from shiftdata.evaluation.metrics.records import Record, number, some
from shiftdata.evaluation.tasks.rows import TaskRows, row_set
from shiftdata.notebook import box, line, shown, table
from shiftdata.tables import aligned, markdown

#: A shift is there if its interval lies above this.
LEAST = 0.05
#: Examples of a side whose features are compared, at most.
MOST_EXAMPLES = 1_000
HEADER = ("shift", "value", "low", "high", "is there", "from", "to")

#: Examples by side (training, test), label and nuisance, of which the last is "none".
Counts: TypeAlias = FloatArray
#: A function of the rows of a task's metadata that returns a line of numbers for each.
Features: TypeAlias = Callable[[IntArray], Any]


@dataclass(frozen=True)
class Measure(Record):
    """The size of one kind of shift, 0 for none to 1, and how the two sides look to its meter."""

    kind: str
    interval: Interval
    source: str = ""
    target: str = ""

    derived: ClassVar[tuple[str, ...]] = ("value", "present")

    @property
    def value(self) -> float:
        return self.interval.estimate

    @property
    def present(self) -> bool:
        return self.interval.low > LEAST

    def line(self) -> list[str]:
        numbers = (self.value, self.interval.low, self.interval.high)
        is_there = "yes" if self.present else "no"
        return [self.kind, *(number(value, 2) for value in numbers), is_there, self.source, self.target]


@dataclass(frozen=True, kw_only=True, repr=False)
class Shifts(Record):
    """The shift from the training set to the test set of a task, kind by kind; `str` makes a table of it."""

    dataset: str
    task: str
    source: str
    target: str
    examples: tuple[int, int]
    origins: tuple[int, int]
    measures: tuple[Measure, ...]
    notes: tuple[str, ...] = ()

    derived: ClassVar[tuple[str, ...]] = ("kinds",)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of shift that are there: those whose interval lies above `LEAST`."""
        return tuple(measure.kind for measure in self.measures if measure.present)

    def __getitem__(self, kind: str) -> Measure:
        for measure in self.measures:
            if measure.kind == kind:
                return measure
        kinds = ", ".join(measure.kind for measure in self.measures)
        raise InputError(f"{kind!r} was not measured here, but {kinds}{self._notes}")

    @property
    def _notes(self) -> str:
        return "".join(f"; {note}" for note in self.notes)

    @property
    def _verdict(self) -> str:
        return f"kinds of shift: {', '.join(self.kinds) or 'none'} (intervals above {LEAST:g})"

    @property
    def _sides(self) -> str:
        sides = zip((self.source, self.target), self.examples, self.origins, strict=True)
        return " to ".join(f"{name} ({n:,} examples, {origins:,} origins)" for name, n, origins in sides)

    def __str__(self) -> str:
        body = [measure.line() for measure in self.measures]
        numeric = [False, True, True, True, False, False, False]
        lines = [self.task, f"of {self.dataset}: {self._sides}", "", aligned(HEADER, body, numeric)]
        return "\n".join([*lines, self._verdict, *self.notes])

    __repr__ = __str__

    def to_markdown(self) -> str:
        return markdown(HEADER, [measure.line() for measure in self.measures])

    @shown
    def _repr_html_(self) -> str:
        lines = [measure.line() for measure in self.measures]
        notes = map(line, [self._verdict, *self.notes])
        return box(f"{self.task}, {self.dataset}", table(self._sides, HEADER, lines), *notes)


def measure_shifts(
    task: TaskRows, *, source: str = "", target: str = "", features: Features | None = None, seed: int = 0
) -> Shifts:
    """Measure every kind of shift from the training set of a task to its test set; no example is read.

    Args:
        task: any task, of one protocol or of several.
        source: a set's name; by default the first that trains.
        target: a set's name; by default the first that tests.
        features: a function of row numbers of the task's metadata that gives a line of a frozen network's
            features for each; then covariate and concept shift are measured too, on at most 1,000 examples a
            side and their first 64 principal components.
        seed: deals examples to groups for the fits on features.

    """
    names = source or task.set_of("fit"), target or task.set_of("test")
    rows, sides, notes = _examples(task, names)
    units, group = _units(task, rows, sides)
    measures = [*_of_groups(task, rows, sides, units, group), *_of_severity(task, rows, sides, units, group)]
    if features is not None:
        measures += _of_features(task, rows, sides, features, seed, notes)
    per_side = [np.unique(task.metadata.origin[rows[mask]]).size for mask in sides.masks]
    return Shifts(
        dataset=task.metadata.name,
        task=task.describe(),
        source=names[0],
        target=names[1],
        examples=sides.counts,
        origins=(per_side[0], per_side[1]),
        measures=tuple(measures),
        notes=tuple(notes),
    )


def _examples(task: TaskRows, names: Sequence[str]) -> tuple[IntArray, Sides, list[str]]:
    """Return the rows of both sets, each as often as it was drawn, and their sides; labels must be there."""
    parts, notes = [], []
    for name in names:
        of_set = row_set(task, name)
        rows = of_set.indices if of_set.counts is None else np.repeat(of_set.indices, of_set.counts)
        labelled = rows[task.metadata.label[rows] >= 0]
        if not len(labelled):
            raise InputError(f"{name} has no labelled row: shifts are between two sets that have labels")
        if len(labelled) < len(rows):
            notes.append(f"{len(rows) - len(labelled):,} rows of {name} have no label and are left out")
        parts.append(labelled)
    rows = np.concatenate(parts)
    return rows, Sides(target=np.arange(len(rows)) >= len(parts[0]), origins=None), notes


def _units(task: TaskRows, rows: IntArray, sides: Sides) -> tuple[Sides, IntArray]:
    """Return the origins of each side, and the group that each row's origin is left out with."""
    origin = task.metadata.origin[rows].astype(np.int64)
    units = [np.unique(origin[mask]) for mask in sides.masks]
    target = np.repeat([False, True], [len(unit) for unit in units])
    # By name: the order of rows does not matter.
    group = hashes64(task.metadata.origin_names, "meters") % GROUPS
    return Sides(target=target, origins=np.concatenate(units)), group[origin].astype(np.int64)


def _interval(
    meter: Callable[[Counts], float], counts: FloatArray, units: Sides, least: float = 0.0
) -> Interval:
    """Measure all examples, and without each group of origins; `counts` begins with the group."""
    whole = counts.sum(axis=0)
    replicates = [meter(whole - left_out) for left_out in counts]
    value = meter(whole)
    return jackknifed(value, [value], margin(replicates), least, units)


def _counted(cells: Sequence[IntArray], shape: tuple[int, ...]) -> FloatArray:
    flat = np.bincount(np.ravel_multi_index(tuple(cells), shape), minlength=math.prod(shape))
    return flat.reshape(shape).astype(np.float64)


def _of_groups(
    task: TaskRows, rows: IntArray, sides: Sides, units: Sides, group: IntArray
) -> Iterator[Measure]:
    """Measure what the labels and nuisances of the rows tell."""
    metadata = task.metadata
    label, nuisance = metadata.label[rows].astype(np.int64), metadata.nuisance[rows].astype(np.int64)
    nuisance = np.where(nuisance < 0, len(metadata.nuisances), nuisance)
    shape = (GROUPS, 2, len(metadata.labels), len(metadata.nuisances) + 1)
    counts = _counted([group, sides.target.astype(np.int64), label, nuisance], shape)
    whole = counts.sum(axis=0)
    for kind, names, marginals in (
        ("new labels", metadata.labels, counts.sum(axis=3)),
        ("new domains", metadata.nuisances, counts.sum(axis=2)[..., :-1]),  # without untouched examples
    ):
        known, tested = marginals.sum(axis=0) > 0
        new = [names[number] for number in np.flatnonzero(tested & ~known)]
        about = f"{len(new):,} new: {some(new, 2)}" if new else "none new"
        yield Measure(kind, _interval(_new, marginals, units), f"{known.sum():,}", about)
    shares = [_shares(side.sum(axis=1)) for side in whole]
    shown_shares = [f"largest {100 * side.max():.0f} %" for side in shares]
    yield Measure("label shift", _interval(_label_shift, counts, units), *shown_shares)
    yield Measure("subpopulation shift", _interval(_subpopulation_shift, counts, units))
    dependence = [f"{number(_dependence(side), 2)}" for side in whole]
    yield Measure("spurious correlation", _interval(_spurious, counts, units, least=-1), *dependence)


def _shares(counts: FloatArray) -> FloatArray:
    shares: FloatArray = counts / max(float(counts.sum()), 1.0)
    return shares


def _variation(source: FloatArray, target: FloatArray) -> float:
    """Half the l1 distance of two tables of counts, each as shares: their total variation."""
    return float(np.abs(_shares(source) - _shares(target)).sum()) / 2


def _new(marginals: FloatArray) -> float:
    """The share of test examples whose label or nuisance no training example has."""
    source, target = marginals
    return float(_shares(target)[source == 0].sum())


def _label_shift(counts: Counts) -> float:
    return _variation(*counts.sum(axis=2))


def _subpopulation_shift(counts: Counts) -> float:
    """The total variation of groups that labels do not explain, among labels and nuisances of both sides.

    Training examples are weighted so that labels have the shares of the test: a label shift alone gives 0.
    """
    both = (counts.sum(axis=2) > 0).all(axis=0), (counts.sum(axis=1) > 0).all(axis=0)
    source, target = (side[np.ix_(*both)] for side in counts)
    both_labels = (source.sum(axis=1) > 0) & (target.sum(axis=1) > 0)
    source, target = source[both_labels], target[both_labels]
    return _variation(source * (target.sum(axis=1) / source.sum(axis=1))[:, None], target)


def _dependence(groups: FloatArray) -> float:
    """The mutual information of label and nuisance, as a share of the smaller of their entropies.

    Of few examples it is too large by about (labels - 1)(nuisances - 1) / 2n nats; what is expected of
    independent ones is taken off (G. A. Miller, 1955).
    """
    joint = _shares(groups)
    labels, nuisances = joint.sum(axis=1), joint.sum(axis=0)
    smaller = min(_entropy(labels), _entropy(nuisances))
    free = (np.count_nonzero(labels) - 1) * (np.count_nonzero(nuisances) - 1)
    if smaller <= 0 or free <= 0:
        return 0.0
    information = _entropy(labels) + _entropy(nuisances) - _entropy(joint) - free / (2 * groups.sum())
    return float(np.clip(information / smaller, 0, 1))


def _entropy(shares: FloatArray) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


def _spurious(counts: Counts) -> float:
    """Return the excess of what the nuisance tells of the label in training over that in the test."""
    return _dependence(counts[0]) - _dependence(counts[1])


def _of_severity(
    task: TaskRows, rows: IntArray, sides: Sides, units: Sides, group: IntArray
) -> Iterator[Measure]:
    """Measure the change of the severities, where there are any."""
    severity = np.nan_to_num(task.metadata.columns["severity"][rows])
    steps, step = np.unique(severity, return_inverse=True)
    if len(steps) < 2:
        return
    counts = _counted([group, sides.target.astype(np.int64), step], (GROUPS, 2, len(steps)))
    means = [f"mean {severity[mask].mean():.2f}" for mask in sides.masks]
    yield Measure("severity shift", _interval(lambda part: _variation(*part), counts, units), *means)


def _of_features(
    task: TaskRows, rows: IntArray, sides: Sides, features: Features, seed: int, notes: list[str]
) -> Iterator[Measure]:
    """Measure covariate and concept shift on features of some examples of either side."""
    chosen = [_sample(task, rows[mask]) for mask in sides.masks]
    if min(map(len, chosen)) < FEWEST_ROWS:
        notes.append(f"covariate and concept shift need {FEWEST_ROWS} examples a side: not measured")
        return
    every = np.concatenate(chosen)
    x, n = _components(np.asarray(features(every), np.float64)), len(chosen[0])
    origin, label = task.metadata.origin[every], task.metadata.label[every]
    origins = origin[:n], origin[n:]
    try:
        covariate = covariate_shift(x[:n], x[n:], origins=origins, seed=seed)
        yield Measure("covariate shift", covariate.interval, *_used(chosen))
        concept = concept_shift_on_features(x[:n], label[:n], x[n:], label[n:], origins=origins, seed=seed)
        yield Measure("concept shift", concept.minimum, f"own {number(concept.floor, 2)}")
    except InputError as error:
        notes.append(f"covariate or concept shift: {error}")


def _used(chosen: Sequence[IntArray]) -> list[str]:
    return [f"of {len(rows):,}" for rows in chosen]


def _sample(task: TaskRows, rows: IntArray) -> IntArray:
    """Choose examples by the hashes of their keys."""
    if len(rows) <= MOST_EXAMPLES:
        return rows
    order = np.argsort(task.metadata.hashes(rows, "meters"), kind="stable")
    return rows[np.sort(order[:MOST_EXAMPLES])]


def _components(x: FloatArray) -> FloatArray:
    """Return the first principal components of standardised columns.

    A missing number is the mean of its column, and that it is missing is a column of its own: what is not
    measured in a domain is a part of its shift.
    """
    missing = np.isnan(x)
    gaps = missing.any(axis=0)
    x = np.where(missing, np.nanmean(np.where(missing.all(axis=0), 0, x), axis=0), x)
    x = np.column_stack([x, missing[:, gaps]])
    x -= x.mean(axis=0)
    x /= np.maximum(x.std(axis=0), np.finfo(np.float32).tiny)
    if x.shape[1] <= COMPONENTS:
        return x
    left, values, _ = np.linalg.svd(x, full_matrices=False)
    components: FloatArray = left[:, :COMPONENTS] * values[:COMPONENTS]
    return components
