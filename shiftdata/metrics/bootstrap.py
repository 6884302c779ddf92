"""Percentile bootstrap intervals of a figure, and of the difference of two methods on the same rows.

Drawing the rows of a group again with replacement gives a binomial number of correct ones, so intervals of
figures over groups draw counts instead of rows: exact, and fast for millions of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import (
    FloatArray,
    IntArray,
    as_codes,
    as_ids,
    as_labels_and_predictions,
    as_predictions,
    check_lengths,
)
from shiftdata.metrics.groups import GroupAccuracy
from shiftdata.metrics.records import Record, number
from shiftdata.metrics.statistics import GroupStatistic, accuracies, count_correct, statistic_of
from shiftdata.stable import rng

#: Counts in memory at once while drawing: 32 MB.
_CELLS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How a bootstrap draws: equal settings and data give equal intervals (under one numpy).

    Stratified, every group keeps its size, as in a test set that was designed so; otherwise sizes vary too,
    and a small group may come out empty.
    """

    seed: int = 0
    replicates: int = 1000
    level: float = 0.95
    stratify: bool = True

    def __post_init__(self) -> None:
        if self.replicates < 1:
            raise InputError(f"replicates must be at least 1, got {self.replicates}")
        if not 0 < self.level < 1:
            raise InputError(f"level must be between 0 and 1, for example 0.95, got {self.level}")


DEFAULT = Resampling()


@dataclass(frozen=True)
class Interval(Record):
    """A figure with its percentile bootstrap interval.

    `undefined` counts replicates in which the figure was nan (a group came out empty); with any, the
    interval is nan too: stratify, or choose a figure that allows empty groups.
    """

    estimate: float
    low: float
    high: float
    level: float
    replicates: int
    seed: int
    undefined: int
    method: str

    def __str__(self) -> str:
        undefined = f", {self.undefined} undefined" if self.undefined else ""
        return (
            f"{number(self.estimate)} [{number(self.low)}, {number(self.high)}] "
            f"({100 * self.level:g} %, {self.method}, {self.replicates:,} replicates{undefined})"
        )


@dataclass(frozen=True)
class PairedComparison(Record):
    """A figure of two methods on the same rows; `difference` is A minus B.

    `only_a` and `only_b` count the rows that only one method has right.
    """

    statistic: str
    a: float
    b: float
    difference: Interval
    only_a: int
    only_b: int

    def __str__(self) -> str:
        return (
            f"{self.statistic}: A {number(self.a)}, B {number(self.b)}\nA - B {self.difference}\n"
            f"only A right {self.only_a:,}, only B right {self.only_b:,}"
        )


def bootstrap_groups(
    result: GroupAccuracy, statistic: str | GroupStatistic = "worst", resampling: Resampling = DEFAULT
) -> Interval:
    """The bootstrap interval of a figure over groups.

    The worst of many groups is biased towards bad luck, and its bootstrap even more so: compare it with
    `GroupAccuracy.worst_by_chance` as well.

    >>> result = GroupAccuracy(np.array([0.9, 0.6]), np.array([50, 50]))
    >>> print(bootstrap_groups(result, "mean"))
    0.7500 [0.6700, 0.8202] (95 %, percentile, stratified by group, 1,000 replicates)
    """
    return bootstrap_figures(result, [statistic], resampling)[0]


def bootstrap_figures(
    result: GroupAccuracy, statistics: Sequence[str | GroupStatistic], resampling: Resampling = DEFAULT
) -> list[Interval]:
    """The intervals of several figures over the same groups, as `bootstrap_groups` gives each: drawn once."""
    figures = [statistic_of(one) for one in statistics]
    generator = rng(resampling.seed, "metrics", "bootstrap-groups")
    right = count_correct(result.accuracy, result.examples)
    outcomes = np.stack([right, result.examples - right], axis=-1)
    drawn = []
    for counts in _draw_counts(outcomes, resampling, generator):
        n = counts.sum(axis=-1)
        accuracy = accuracies(counts[..., 0], n)
        drawn.append([figure(accuracy, n) for figure in figures])
    by = "stratified by group" if resampling.stratify else "by row"
    return [
        _interval(result.summary(figure), np.concatenate(of), resampling, f"percentile, {by}")
        for figure, of in zip(figures, zip(*drawn, strict=True), strict=True)
    ]


def bootstrap_rows(
    statistic: Callable[[IntArray], float],
    n_rows: int,
    resampling: Resampling = DEFAULT,
    *,
    strata: Any = None,
    clusters: Any = None,
) -> Interval:
    """The bootstrap interval of any figure that can be computed from row numbers, some of them repeated.

    `strata` names each row's stratum, which keeps its size. `clusters` names what rows share, such as an
    origin: they are drawn together, since the stylised copies of one picture do not fail independently.

    >>> hits = np.array([1, 1, 0, 1])
    >>> bootstrap_rows(lambda rows: hits[rows].mean(), 4).estimate
    0.75
    """
    if n_rows < 1:
        raise InputError(f"n_rows must be at least 1, got {n_rows}")
    if strata is not None and clusters is not None:
        raise InputError("give strata or clusters, not both: a cluster may lie in several strata")
    generator = rng(resampling.seed, "metrics", "bootstrap-rows")
    if clusters is not None:
        draw, method = _cluster_drawer(_codes("clusters", clusters, n_rows)), "percentile, by cluster"
    elif strata is not None:
        draw, method = _stratum_drawer(_codes("strata", strata, n_rows)), "percentile, stratified"
    else:
        draw, method = _stratum_drawer(np.zeros(n_rows, np.int64)), "percentile, by row"
    drawn = np.array([statistic(draw(generator)) for _ in range(resampling.replicates)], dtype=np.float64)
    return _interval(float(statistic(np.arange(n_rows))), drawn, resampling, method)


def compare(
    labels: Any,
    a: Any,
    b: Any,
    *,
    groups: Any = None,
    n_groups: int | None = None,
    n_classes: int | None = None,
    statistic: str | GroupStatistic = "overall",
    resampling: Resampling = DEFAULT,
) -> PairedComparison:
    """Compare the predictions of two methods on the same rows.

    The bootstrap draws rows, not methods: each replicate has both methods' outcomes on the same rows, by
    group when stratified. With `groups` any figure over groups can be compared, such as "worst";
    with `n_classes`, unknown classes are refused.

    >>> print(compare([0, 0, 1, 1], [0, 0, 1, 0], [0, 1, 0, 0]))
    overall: A 0.7500, B 0.2500
    A - B 0.5000 [0.0000, 1.0000] (95 %, percentile, by row, 1,000 replicates)
    only A right 2, only B right 0
    """
    figure = statistic_of(statistic)
    true, first = as_labels_and_predictions(labels, a, n_classes)
    second = as_predictions(b, n_classes, name="predictions of B")
    check_lengths(labels=true, b=second)
    outcomes = _outcomes(first == true, second == true, groups, n_groups)
    generator = rng(resampling.seed, "metrics", "compare")
    drawn = [np.subtract(*_both(figure, counts)) for counts in _draw_counts(outcomes, resampling, generator)]
    of_a, of_b = (float(value) for value in _both(figure, outcomes))
    by = "stratified by group" if groups is not None and resampling.stratify else "by row"
    difference = _interval(of_a - of_b, np.concatenate(drawn), resampling, f"percentile, {by}")
    only_a, only_b = outcomes.sum(axis=0).tolist()[1:3]
    return PairedComparison(figure.name, of_a, of_b, difference, only_a, only_b)


def _draw_counts(outcomes: IntArray, how: Resampling, generator: np.random.Generator) -> Iterator[IntArray]:
    """Replicates of a table groups x outcomes of counts, some at a time: replicates x groups x outcomes.

    The outcomes of a group (both methods right, only one, none) are drawn together.
    """
    sizes = outcomes.sum(axis=-1)
    certain = np.eye(outcomes.shape[-1])[-1]  # a group without rows draws none, whatever its probabilities
    shares = np.where(sizes[:, None] > 0, outcomes / np.maximum(sizes, 1)[:, None], certain)
    # How many replicates come at a time never changes them: the generator is read in order.
    step = max(1, _CELLS // outcomes.size)
    for start in range(0, how.replicates, step):
        r = min(step, how.replicates - start)
        if how.stratify:
            yield generator.multinomial(sizes, shares, size=(r, len(sizes)))
        else:
            flat = generator.multinomial(sizes.sum(), outcomes.ravel() / sizes.sum(), size=r)
            yield flat.reshape(r, *outcomes.shape)


def _interval(estimate: float, drawn: FloatArray, how: Resampling, method: str) -> Interval:
    """The percentile interval of the replicates; nan when any of them is."""
    tail = (1 - how.level) / 2
    undefined = int(np.isnan(drawn).sum())
    low, high = (math.nan, math.nan) if undefined else np.quantile(drawn, [tail, 1 - tail]).tolist()
    return Interval(estimate, low, high, how.level, len(drawn), how.seed, undefined, method)


def _codes(name: str, values: Any, n_rows: int) -> IntArray:
    codes = as_codes(name, values)[1]
    if len(codes) != n_rows:
        raise InputError(f"{name}: {len(codes):,} names for {n_rows:,} rows; give one a row")
    return codes


def _stratum_drawer(codes: IntArray) -> Callable[[np.random.Generator], IntArray]:
    """Draws as many rows of each stratum as it has, with replacement."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    size = np.repeat(sizes, sizes)
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return lambda generator: order[start + generator.integers(0, size)]


def _cluster_drawer(codes: IntArray) -> Callable[[np.random.Generator], IntArray]:
    """Draws as many clusters as there are, with replacement, each with all its rows."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes

    def draw(generator: np.random.Generator) -> IntArray:
        drawn = generator.integers(0, len(sizes), size=len(sizes))
        lengths = sizes[drawn]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows: IntArray = order[np.repeat(starts[drawn], lengths) + within]
        return rows

    return draw


def _outcomes(
    right_a: NDArray[np.bool_], right_b: NDArray[np.bool_], groups: Any, n_groups: int | None
) -> IntArray:
    """How many rows of each group both have right, only A, only B, none."""
    if (groups is None) != (n_groups is None):
        raise InputError("give groups together with n_groups, or neither")
    ids = np.zeros(len(right_a), np.int64) if groups is None else as_ids("groups", groups, n_groups)
    check_lengths(labels=right_a, groups=ids)
    outcome = 2 * ~right_a + ~right_b
    return np.bincount(4 * ids + outcome, minlength=4 * (n_groups or 1)).reshape(-1, 4)


def _both(figure: GroupStatistic, outcomes: IntArray) -> tuple[Any, Any]:
    """The figure of A and of B from counts whose last axis is both, only A, only B, none."""
    n = outcomes.sum(axis=-1)
    both, only_a, only_b = outcomes[..., 0], outcomes[..., 1], outcomes[..., 2]
    return figure(accuracies(both + only_a, n), n), figure(accuracies(both + only_b, n), n)
