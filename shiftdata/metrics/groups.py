"""Accuracy by group or domain, the figures that sum it up, and how low the worst falls by chance alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, IntArray, as_ids, as_labels_and_predictions, check_lengths
from shiftdata.metrics.records import Record, markdown, number, table
from shiftdata.metrics.statistics import (
    Convention,
    GroupStatistic,
    accuracies,
    adjusted_average,
    count_correct,
    spread,
    statistic_of,
    worst_of,
)

#: Groups that `str` shows at most.
MOST_LINES = 20


@dataclass(frozen=True, eq=False)
class WorstByChance(Record):
    """The distribution of the lowest group accuracy when all groups are equally hard.

    With G groups of n rows each and one true accuracy p, the worst group still looks worse than p, and the
    more groups the more so (SMA, appendix E.4, bounds this by a normal approximation). Here it comes from the
    binomial itself: P(min > t) is the product over groups of P(X_g > t n_g). `values` are the accuracies that
    the minimum can take, `probability` how likely each is.
    """

    accuracy: float
    groups: int
    values: FloatArray
    probability: FloatArray

    derived: ClassVar[tuple[str, ...]] = ("expected", "std")
    omitted: ClassVar[tuple[str, ...]] = ("values", "probability")

    @property
    def expected(self) -> float:
        return float(self.values @ self.probability)

    @property
    def std(self) -> float:
        return math.sqrt(float((self.values - self.expected) ** 2 @ self.probability))

    def quantile(self, q: float) -> float:
        """The lowest value that the worst group stays at or below with probability q."""
        if not 0 <= q <= 1:
            raise InputError(f"q must be between 0 and 1, got {q}")
        reached = np.flatnonzero(np.cumsum(self.probability) >= q - 1e-12)
        return float(self.values[reached[0] if len(reached) else -1])

    def at_most(self, observed: float) -> float:
        """How likely chance alone gives a worst group this low: if hardly ever, groups do differ."""
        return min(1.0, float(self.probability[self.values <= observed + 1e-12].sum()))

    def __str__(self) -> str:
        low, high = number(self.quantile(0.025)), number(self.quantile(0.975))
        return (
            f"worst of {self.groups:,} equal groups at accuracy {number(self.accuracy)}: "
            f"{number(self.expected)} expected, {low} to {high} in 95 %"
        )


@dataclass(frozen=True, eq=False)
class GroupAccuracy(Record):
    """The accuracy of each group, domain or label, and its number of rows.

    A group without rows has accuracy nan and n = 0, and whatever needs its accuracy is nan too: call
    `without_empty()` to leave such groups out knowingly. Without `names` the groups are 0, 1, 2, ...; `by`
    says what they are groups of. `distinct` counts the different examples of each group where rows repeat
    some: errors count these, since equal pictures get equal predictions.
    """

    accuracy: FloatArray
    n: IntArray
    names: tuple[str | int, ...] | None = None
    by: str = "group"
    distinct: IntArray | None = None

    derived: ClassVar[tuple[str, ...]] = ("overall", "mean", "worst", "empty", "sem")

    def __post_init__(self) -> None:
        if self.accuracy.shape != self.n.shape or self.n.ndim != 1:
            raise InputError(f"accuracy {self.accuracy.shape} and n {self.n.shape}: give one of each a group")
        if self.names is not None and len(self.names) != len(self.n):
            raise InputError(f"names: {len(self.names)} for {len(self.n)} groups; give one a group")

    @property
    def correct(self) -> IntArray:
        return count_correct(self.accuracy, self.n)

    @property
    def overall(self) -> float:
        """The share of all rows that are right: micro average, NICO++'s Overall."""
        return self.summary("overall")

    @property
    def mean(self) -> float:
        """The mean over groups or domains: SMA's mean-group accuracy, NICO++'s Average."""
        return self.summary("mean")

    @property
    def worst(self) -> float:
        """The lowest accuracy of a group: worst-group accuracy."""
        return self.summary("worst")

    @property
    def worst_group(self) -> str | int | None:
        """The name of the group that is worst, the first if several are; None while a group is empty."""
        return None if self.empty else self._named([int(self.accuracy.argmin())])[0]

    @property
    def empty(self) -> tuple[str | int, ...]:
        """The names of the groups without rows."""
        return self._named(np.flatnonzero(self.n == 0).tolist())

    @property
    def sem(self) -> FloatArray:
        """The standard error of each group's accuracy (SMA's formula over its rows); nan below two rows."""
        return np.asarray(np.sqrt(accuracies(self.accuracy * (1 - self.accuracy), self.examples - 1)))

    @property
    def examples(self) -> IntArray:
        """How many different examples each group has."""
        return self.n if self.distinct is None else self.distinct

    def worst_of(self, m: int) -> float:
        """SMA's top-M worst-group accuracy: the mean of the M groups that are worst."""
        return self.summary(worst_of(m))

    def adjusted(self, train_n: Any) -> float:
        """The average weighted by the groups' counts in training, as WILDS does for Waterbirds."""
        return self.summary(adjusted_average(train_n))

    def std(self, convention: Convention = "nico++") -> float:
        """The standard deviation over groups or domains: by K - 1 as NICO++ says, by K as its tables do."""
        return spread(self.accuracy, convention)

    def summary(self, statistic: str | GroupStatistic) -> float:
        """Any statistic over the groups."""
        return float(statistic_of(statistic)(self.accuracy, self.n))

    def without_empty(self) -> GroupAccuracy:
        """The same without the groups that have no rows; the others keep their names."""
        kept = np.flatnonzero(self.n)
        distinct = None if self.distinct is None else self.distinct[kept]
        return GroupAccuracy(self.accuracy[kept], self.n[kept], self._named(kept.tolist()), self.by, distinct)

    def worst_by_chance(self) -> WorstByChance:
        """What the worst group would be if all had the overall accuracy; empty groups are left out."""
        return worst_by_chance(self.examples[self.n > 0], self.overall)

    def to_markdown(self) -> str:
        """Every group in its order as a Markdown table, with its standard error and number of rows."""
        return markdown(*self._lines(range(len(self.n))))

    def __str__(self) -> str:
        """The figures, and every group in its order; of many groups the worst, empty ones first."""
        what = "groups" if self.by == "group" or " / " in self.by else f"values of {self.by}"
        lines = [
            f"overall {number(self.overall)}, mean {number(self.mean)}, worst {number(self.worst)}, "
            f"std {number(self.std())} over {len(self.n):,} {what}, {int(self.n.sum()):,} rows"
        ]
        if self.empty:
            lines.append(
                f"{len(self.empty):,} groups are empty: mean, worst and std are undefined; "
                "see without_empty()"
            )
        shown: Sequence[int] = range(len(self.n))
        if len(self.n) > MOST_LINES:
            shown = np.argsort(np.where(self.n > 0, self.accuracy, -1), kind="stable")[:MOST_LINES].tolist()
            lines.append(f"the {MOST_LINES} worst of them:")
        return "\n".join([*lines, table(*self._lines(shown))])

    def _named(self, positions: Sequence[int]) -> tuple[str | int, ...]:
        return tuple(positions) if self.names is None else tuple(self.names[i] for i in positions)

    def _lines(self, positions: Sequence[int]) -> tuple[list[str], list[list[str]]]:
        names, sem = self._named(positions), self.sem
        counts = {"n": self.n} | ({} if self.distinct is None else {"different": self.distinct})
        figures = (
            [
                number(self.accuracy[place]),
                number(sem[place]),
                *(f"{one[place]:,}" for one in counts.values()),
            ]
            for place in positions
        )
        rows = [[str(name), *shown] for name, shown in zip(names, figures, strict=True)]
        return [self.by, "accuracy", "sem", *counts], rows


def group_accuracy(
    labels: Any, predictions: Any, groups: Any, *, n_groups: int, n_classes: int | None = None
) -> GroupAccuracy:
    """Accuracy by group (label and style), by domain, by style, or by whatever ids are given.

    Predictions are class ids, or one row of class scores for each example. With `n_classes`, unknown classes
    are refused.

    >>> result = group_accuracy([0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 1, 2], n_groups=4)
    >>> result.accuracy.tolist(), result.n.tolist(), result.overall
    ([1.0, 0.5, 1.0, nan], [1, 2, 1, 0], 0.75)
    """
    true, predicted = as_labels_and_predictions(labels, predictions, n_classes)
    ids = as_ids("groups", groups, n_groups)
    check_lengths(labels=true, groups=ids)
    n = np.bincount(ids, minlength=n_groups)
    correct = np.bincount(ids[true == predicted], minlength=n_groups)
    return GroupAccuracy(accuracies(correct, n), n)


def worst_by_chance(n: Any, accuracy: float, *, groups: int | None = None) -> WorstByChance:
    """What the worst group's accuracy would be if every group had the same true accuracy.

    `n` is the rows of each group: one number for all, with `groups`, or one number for each group.

    >>> print(worst_by_chance(40, 0.9, groups=400))
    worst of 400 equal groups at accuracy 0.9000: 0.7376 expected, 0.6750 to 0.7750 in 95 %
    """
    if not 0 <= accuracy <= 1:
        raise InputError(f"accuracy must be between 0 and 1, got {accuracy}")
    sizes, counts = _sizes(n, groups)
    values = np.unique(np.concatenate([np.arange(size + 1) / size for size in sizes]))
    log_above = np.zeros(len(values))  # of P(min > value)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        below = (values * size + 1e-9).astype(np.int64)  # the most correct rows at or below value
        log_above += (count * _log_above(size, accuracy))[below]
    above = np.exp(log_above)
    return WorstByChance(accuracy, int(counts.sum()), values, -np.diff(above, prepend=1.0))


def _sizes(n: Any, groups: int | None) -> tuple[IntArray, IntArray]:
    """The sizes that occur, and how many groups have each."""
    if (np.ndim(n) == 0) != (groups is not None):
        raise InputError("give one n with groups=, or one n for each group without it")
    if groups is not None and groups < 1:
        raise InputError(f"groups must be at least 1, got {groups}")
    array = as_ids("n", np.atleast_1d(n))
    if empty := int((array == 0).sum()):
        raise InputError(f"n: {empty} groups are empty and have no accuracy; leave them out")
    sizes, counts = np.unique(array, return_counts=True)
    return sizes, counts * (groups or 1)


def _log_above(n: int, p: float) -> FloatArray:
    """Logarithms of P(X > k) of the binomial for k = 0 .. n, each from the tail that is small."""
    mass = _binomial(n, p)
    at_most = np.cumsum(mass)
    above = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0)
    with np.errstate(divide="ignore"):  # log 0 is -inf, as it should be
        return np.where(at_most < 0.5, np.log1p(-np.minimum(at_most, 0.5)), np.log(above))


def _binomial(n: int, p: float) -> FloatArray:
    """P(X = k) for k = 0 .. n, by logarithms so that it neither over- nor underflows."""
    successes = np.arange(n + 1)
    if p in (0, 1):
        return np.where(successes == n * p, 1.0, 0.0)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(successes[1:]))])
    log_ways = log_factorial[-1] - log_factorial - log_factorial[::-1]
    return np.asarray(np.exp(log_ways + successes * math.log(p) + successes[::-1] * math.log1p(-p)))
