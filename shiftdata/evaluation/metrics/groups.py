"""Accuracy by group or domain, the figures that sum it up, and their standard errors over origins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shiftdata.data.arrays import (
    FloatArray,
    IntArray,
    as_codes,
    as_narrow_ids,
    as_predictions,
    check_lengths,
    stretches,
)
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.chance import WorstByChance, worst_by_chance
from shiftdata.evaluation.metrics.clusters import Clusters
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import accuracies, count_correct, normal, reach, spread, wilson
from shiftdata.notebook import box, shown, table
from shiftdata.tables import aligned, markdown

#: Groups that `str` shows at most.
MOST_LINES = 20


@dataclass(frozen=True, eq=False, repr=False)
class GroupAccuracy(Record):
    """The accuracy of each group, domain or label, and its number of rows.

    A group without rows has accuracy nan and n = 0, and every figure that needs its accuracy is nan:
    `without_empty()` leaves such groups out. Without `names` the groups are 0, 1, 2, ...; `by` is the column.
    Errors are over the origins in `clusters`: the rows of an origin are one observation.
    Without clusters each row is an origin of its own.
    """

    accuracy: FloatArray
    n: IntArray
    names: tuple[str | int, ...] | None = None
    by: str = "group"
    clusters: Clusters | None = None

    derived: ClassVar[tuple[str, ...]] = ("overall", "mean", "worst", "empty", "sem", "origins")
    omitted: ClassVar[tuple[str, ...]] = ("clusters",)

    @property
    def correct(self) -> IntArray:
        return count_correct(self.accuracy, self.n)

    @property
    def overall(self) -> float:
        """The accuracy over all rows: micro average, NICO++'s Overall."""
        return float(accuracies((np.nan_to_num(self.accuracy) * self.n).sum(), self.n.sum()))

    @property
    def mean(self) -> float:
        """The mean over groups or domains: SMA's mean-group accuracy, NICO++'s Average."""
        return float(self.accuracy.mean())

    @property
    def worst(self) -> float:
        """The lowest accuracy of a group: worst-group accuracy."""
        return float(self.accuracy.min())

    @property
    def worst_group(self) -> str | int | None:
        """The name of the (first) worst group; None while a group is empty."""
        return None if self.empty else self._named([int(self.accuracy.argmin())])[0]

    @property
    def empty(self) -> tuple[str | int, ...]:
        """The names of the groups without rows."""
        return self._named(np.flatnonzero(self.n == 0).tolist())

    @property
    def sem(self) -> FloatArray:
        """The standard error of each group's accuracy, over its origins; nan below two of them.

        Where each row is an origin it is SMA's formula, the root of p (1 - p) / (n - 1).
        """
        if self.clusters is not None and not self.clusters.plain:
            return self.clusters.sem
        return np.asarray(np.sqrt(accuracies(self.accuracy * (1 - self.accuracy), self.n - 1)))

    @property
    def origins(self) -> IntArray:
        """The number of origins of each group; 0 where unknown, in an evaluation read back."""
        return self.n if self.clusters is None else self.clusters.count

    @property
    def effective(self) -> FloatArray:
        """Kish's effective size: the rows of different origins that would be as uncertain."""
        return self.n.astype(np.float64) if self.clusters is None else self.clusters.effective

    def intervals(self, level: float = 0.95) -> list[tuple[float, float]]:
        """Wilson's interval of each accuracy, at the number of independent rows with its error.

        That number is 1 + p (1 - p) / sem^2, the rows where each is an origin of its own; where all or none
        are right it is the effective size. Student's quantile allows for errors from few origins (E. L. Korn
        and B. I. Graubard, Survey Methodology 24, 1998).
        """
        parts = zip(self.accuracy, self.n, self.sem, self.effective, self.origins == self.n, strict=True)
        return [
            wilson(p * n, n, normal(level)) if alone or not n else _clustered(p, n, sem, size, level)
            for p, n, sem, size, alone in parts
        ]

    def worst_interval(self, m: int = 1, level: float = 0.95) -> tuple[float, float]:
        """An interval of the mean accuracy of the m groups that are truly worst, whichever they are.

        The group that looks worst is partly the unluckiest, and a bootstrap repeats its bad luck: with many
        equally hard groups its interval hardly ever has the truth. Simultaneous limits do. The m
        worst lie above the m lowest lower ends if their own hold (Bonferroni over m), and below the m lowest
        upper ends if all hold (over all groups). nan while a group is empty.
        """
        if self.empty:
            return math.nan, math.nan
        below, above = (np.array(self.intervals(1 - (1 - level) / size)) for size in (m, len(self.n)))
        return float(np.sort(below[:, 0])[:m].mean()), float(np.sort(above[:, 1])[:m].mean())

    def merge(self, place: IntArray, names: tuple[str | int, ...], by: str) -> GroupAccuracy:
        """Merge groups: `place` has the number of the group that each becomes part of."""
        n, correct = (np.bincount(place, of, len(names)).astype(np.int64) for of in (self.n, self.correct))
        clusters = None if self.clusters is None else self.clusters.merge(place, len(names))
        return GroupAccuracy(accuracies(correct, n), n, names, by, clusters)

    def worst_of(self, m: int) -> float:
        """SMA's top-M worst-group accuracy: the mean of the M groups that are worst."""
        if not 1 <= m <= len(self.n):
            raise InputError(f"m={m} of the worst groups: give 1 to the number of groups, {len(self.n)}")
        # A partition would leave nan at the end, unseen.
        return math.nan if self.empty else float(np.partition(self.accuracy, m - 1)[:m].mean())

    @property
    def std(self) -> float:
        """The standard deviation over groups or domains: by K - 1 as NICO++ says; its tables show it by K."""
        return spread(self.accuracy)

    def without_empty(self) -> GroupAccuracy:
        """Leave out the groups without rows; the others keep their names."""
        full = np.flatnonzero(self.n)
        place, names = np.cumsum(self.n > 0) - 1, self._named(full.tolist())
        clusters = None if self.clusters is None else self.clusters.merge(place, len(full))
        return GroupAccuracy(self.accuracy[full], self.n[full], names, self.by, clusters)

    def worst_by_chance(self) -> WorstByChance:
        """The worst group by chance alone, were all groups at the overall accuracy; empty ones are left out.

        A group counts with its effective size, as if the rows of an origin were right or wrong together.
        """
        sizes = np.maximum(1, np.rint(self.effective)).astype(np.int64)
        return worst_by_chance(sizes[self.n > 0], self.overall)

    def to_markdown(self) -> str:
        """Every group as a Markdown table, with its standard error and number of rows."""
        return markdown(*self._lines(range(len(self.n))))

    def __str__(self) -> str:
        """The figures, and every group in its order; of many groups the worst, empty ones first."""
        groups = "groups" if self.by == "group" or " / " in self.by else f"values of {self.by}"
        lines = [
            f"overall {number(self.overall)}, mean {number(self.mean)}, worst {number(self.worst)}, "
            f"std {number(self.std)} over {len(self.n):,} {groups}, {int(self.n.sum()):,} rows"
        ]
        if empty := len(self.empty):
            lines.append(
                f"{empty:,} groups are empty: mean, worst and std are undefined; see without_empty()"
            )
        shown: Sequence[int] = range(len(self.n))
        if len(self.n) > MOST_LINES:
            shown = np.argsort(np.where(self.n > 0, self.accuracy, -1), kind="stable")[:MOST_LINES].tolist()
            lines.append(f"the {MOST_LINES} worst of them:")
        return "\n".join([*lines, aligned(*self._lines(shown))])

    __repr__ = __str__

    @shown
    def _repr_html_(self) -> str:
        figures, *_ = str(self).splitlines()
        return box(figures, table(f"Accuracy by {self.by}", *self._lines(range(len(self.n)))))

    def differing(self) -> dict[str, IntArray]:
        """The column `origins` of tables, where it does not repeat the rows."""
        return {"origins": self.origins} if self.origins.any() and (self.origins != self.n).any() else {}

    def _named(self, positions: Sequence[int]) -> tuple[str | int, ...]:
        return tuple(positions) if self.names is None else tuple(self.names[i] for i in positions)

    def _lines(self, positions: Sequence[int]) -> tuple[list[str], list[list[str]]]:
        names, sem = self._named(positions), self.sem
        counts = {"n": self.n} | self.differing()
        rows = [
            [str(name), number(self.accuracy[i]), number(sem[i]), *(f"{n[i]:,}" for n in counts.values())]
            for name, i in zip(names, positions, strict=True)
        ]
        return [self.by, "accuracy", "sem", *counts], rows


def _clustered(p: float, n: int, sem: float, effective: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share of n rows of fewer origins."""
    # As sem^2 = p (1 - p) / (rows - 1). At most n, the rows if all were independent.
    rows = min(1 + p * (1 - p) / sem**2, n) if sem > 0 else effective
    return wilson(p * rows, rows, reach(effective, level))


def group_accuracy(
    labels: Any,
    predictions: Any,
    groups: Any,
    *,
    n_groups: int,
    origins: Any = None,
) -> GroupAccuracy:
    """Accuracy by group, domain, style, or any other ids.

    Predictions are class ids, or one row of class scores per example. With `origins`, errors count the rows
    of an origin as one observation.

    >>> result = group_accuracy([0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 1, 2], n_groups=4)
    >>> result.accuracy.tolist(), result.n.tolist(), result.overall
    ([1.0, 0.5, 1.0, nan], [1, 2, 1, 0], 0.75)
    """
    true, predicted = as_narrow_ids("labels", labels), as_predictions(predictions)
    ids = as_narrow_ids("groups", groups, n_groups)
    check_lengths(labels=true, predictions=predicted, groups=ids)
    n, correct = np.zeros((2, n_groups), np.int64)
    for at in stretches(len(ids)):
        group = ids[at]
        n += np.bincount(group, minlength=n_groups)
        correct += np.bincount(group[true[at] == predicted[at]], minlength=n_groups)
    clusters = None
    if origins is not None:
        codes = as_codes("origins", origins)[1]
        check_lengths(labels=true, origins=codes)
        right = (true == predicted).astype(np.float64)
        clusters = Clusters.of_rows(ids, codes, right, n_groups)
    return GroupAccuracy(accuracies(correct, n), n, clusters=clusters)


@dataclass(frozen=True, eq=False)
class Linear:
    """A figure linearised in the accuracies of groups: its derivatives, 1 / G each for a mean over G.

    `worst` is the number of worst groups in a figure that is their mean, which others might be by chance;
    `shares` is False where the groups have values that are no shares.
    """

    groups: GroupAccuracy
    derivatives: FloatArray
    worst: int = 0
    shares: bool = True

    @property
    def n(self) -> int:
        """The rows that the figure depends on."""
        return int(self.groups.n[self.derivatives != 0].sum())

    @property
    def origins(self) -> int:
        """The origins that the figure depends on."""
        return self.n if self._plain else int(np.count_nonzero(self._weights))

    @property
    def sem(self) -> float:
        """The standard error over origins, each of which may have rows in several groups."""
        of, used = self.groups, self.derivatives != 0
        if not self._plain and used.sum() > 1:
            return math.sqrt(float((self.influence() ** 2).sum()))
        errors = of.sem
        if used.sum() > 1:  # as `Clusters.deviations`
            errors = np.where((of.n == 1) & (of.n.sum() > 1), of.accuracy - of.overall, errors)
        return math.sqrt(float(((self.derivatives * errors)[used] ** 2).sum()))

    @property
    def effective(self) -> float:
        """Kish's effective number of origins."""
        if self._plain:
            return float(self.n)
        weights = self._weights
        return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else math.nan

    @property
    def reach(self) -> float:
        """Half the width of a 95 % interval in standard errors, by the effective number of origins."""
        return reach(self.effective)

    def interval(self, value: float) -> tuple[float, float]:
        """The 95 % interval of the figure; nan where it is undefined.

        It is made of simultaneous limits for the worst groups, Wilson's for a mean of shares, as in
        `GroupAccuracy.intervals`, and Student's for all others.
        """
        if not math.isfinite(value):
            return math.nan, math.nan
        if self.worst:
            return self.groups.worst_interval(self.worst)
        if self.shares and (self.derivatives >= 0).all() and math.isclose(self.derivatives.sum(), 1):
            return _clustered(value, self.n, self.sem, self.effective)
        return value - self.reach * self.sem, value + self.reach * self.sem

    def influence(self) -> FloatArray:
        """The influence of each origin on the figure, by the number of the origin."""
        if self.groups.clusters is None:
            raise InputError("influences need the rows' origins: give group_accuracy(..., origins=...)")
        return self.groups.clusters.influence(self.derivatives)

    @property
    def _plain(self) -> bool:
        """Each row is an origin of its own: the counts of groups are enough."""
        return self.groups.clusters is None or self.groups.clusters.plain

    @cached_property
    def _weights(self) -> FloatArray:
        assert self.groups.clusters is not None
        return self.groups.clusters.weights(self.derivatives)
