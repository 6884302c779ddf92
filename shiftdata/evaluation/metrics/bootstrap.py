"""Intervals of a figure. By percentile bootstrap: origins are drawn again, each with all its rows.

Origins are what was sampled; the rows of one, its styles or the copies that a label shift draws, are not.
Where each row is an origin, drawing the rows of a group again gives a binomial number of correct ones, so
counts are drawn instead of rows: exact, and fast for millions of rows. The worst of several groups cannot be
bootstrapped: its interval is made of simultaneous limits (`GroupAccuracy.worst_interval`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray, as_codes
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.clusters import Clusters
from shiftdata.evaluation.metrics.groups import GroupAccuracy
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import GroupStatistic, accuracies, count_correct, statistic_of
from shiftdata.stable import rng

#: Counts in memory at once while drawing: 32 MB.
_CELLS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """Settings of a bootstrap: equal settings and data give equal intervals (under one numpy).

    Draws are stratified: every group keeps its number of origins; groups that share origins, such as the
    styles of one label, are one stratum.
    """

    seed: int = 0
    replicates: int = 1000
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.replicates < 1:
            raise InputError(f"replicates must be at least 1, got {self.replicates}")
        if not 0 < self.level < 1:
            raise InputError(f"level must be between 0 and 1, for example 0.95, got {self.level}")


DEFAULT = Resampling()
SIMULTANEOUS = "simultaneous limits of all groups"


@dataclass(frozen=True)
class Interval(Record):
    """A figure with its interval; `replicates` is 0 where nothing was drawn.

    `undefined` counts the replicates in which the figure was nan (a group came out empty): with any, the
    interval is nan too.
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
        drawn = f", {self.replicates:,} replicates{undefined}" if self.replicates else ""
        ends = f"[{number(self.low)}, {number(self.high)}]"
        return f"{number(self.estimate)} {ends} ({100 * self.level:g} %, {self.method}{drawn})"


def bootstrap_groups(
    result: GroupAccuracy, statistic: str | GroupStatistic = "worst", resampling: Resampling = DEFAULT
) -> Interval:
    """The interval of a figure over groups: by bootstrap; for the worst groups, simultaneous limits.

    >>> result = GroupAccuracy(np.array([0.9, 0.6]), np.array([50, 50]))
    >>> print(bootstrap_groups(result, "mean"))
    0.7500 [0.6700, 0.8202] (95 %, percentile, stratified by group, 1,000 replicates)
    """
    return bootstrap_figures(result, [statistic], resampling)[0]


def bootstrap_figures(
    result: GroupAccuracy, statistics: Sequence[str | GroupStatistic], resampling: Resampling = DEFAULT
) -> list[Interval]:
    """The intervals of several figures over the same groups, from one set of replicates."""
    figures = [statistic_of(statistic) for statistic in statistics]
    generator = rng(resampling.seed, "metrics", "bootstrap-groups")
    clusters = result.clusters
    if clusters is None or clusters.plain:
        method = "percentile, stratified by group"
        right = count_correct(result.accuracy, result.n)
        counted = draw_counts(np.stack([right, result.n - right], axis=-1), resampling, generator)
    else:
        method = "percentile, by origin, stratified by group"
        counted = draw_origins(clusters, resampling, generator)
    drawn = []
    for counts in counted:
        n = counts.sum(axis=-1)
        accuracy = accuracies(counts[..., 0], n)
        drawn.append([figure(accuracy, n) for figure in figures])
    intervals = []
    for figure, replicates in zip(figures, zip(*drawn, strict=True), strict=True):
        estimate = result.summary(figure)
        if figure.worst:
            ends = result.worst_interval(figure.worst, resampling.level)
            intervals.append(Interval(estimate, *ends, resampling.level, 0, resampling.seed, 0, SIMULTANEOUS))
        else:
            intervals.append(interval_of(estimate, np.concatenate(replicates), resampling, method))
    return intervals


def bootstrap_rows(
    statistic: Callable[[IntArray], float],
    n_rows: int,
    resampling: Resampling = DEFAULT,
    *,
    clusters: Any = None,
) -> Interval:
    """The bootstrap interval of any function of row numbers, which may repeat.

    Rows that share one of the `clusters`, such as an origin, are drawn together.

    >>> hits = np.array([1, 1, 0, 1])
    >>> bootstrap_rows(lambda rows: hits[rows].mean(), 4).estimate
    0.75
    """
    if n_rows < 1:
        raise InputError(f"n_rows must be at least 1, got {n_rows}")
    codes = None if clusters is None else as_codes("clusters", clusters)[1]
    if codes is not None and len(codes) != n_rows:
        raise InputError(f"clusters: {len(codes):,} names for {n_rows:,} rows; give one per row")
    generator = rng(resampling.seed, "metrics", "bootstrap-rows")
    draw = _drawer(np.arange(n_rows) if codes is None else codes, generator)
    method = f"percentile, by {'row' if codes is None else 'cluster'}"
    drawn = np.array([statistic(draw()) for _ in range(resampling.replicates)], dtype=np.float64)
    return interval_of(float(statistic(np.arange(n_rows))), drawn, resampling, method)


def draw_counts(outcomes: IntArray, how: Resampling, generator: np.random.Generator) -> Iterator[IntArray]:
    """Draw replicates of a table of counts, groups x outcomes, in chunks: replicates x groups x outcomes."""
    sizes = outcomes.sum(axis=-1)
    certain = np.eye(outcomes.shape[-1])[-1]  # a group without rows draws none, whatever its probabilities
    shares = np.where(sizes[:, None] > 0, outcomes / np.maximum(sizes, 1)[:, None], certain)
    # The size of a chunk changes no draw: the generator is read in order.
    step = max(1, _CELLS // outcomes.size)
    for start in range(0, how.replicates, step):
        yield generator.multinomial(sizes, shares, size=(min(step, how.replicates - start), len(sizes)))


def draw_origins(clusters: Clusters, how: Resampling, generator: np.random.Generator) -> Iterator[IntArray]:
    """Draw the right and wrong rows of each group as `draw_counts`, but origins with all their rows."""
    outcomes = np.stack([clusters.right, clusters.n - clusters.right], axis=-1)
    used = np.flatnonzero(np.bincount(clusters.origin, minlength=clusters.origins))
    stratum = np.zeros(clusters.origins, np.int64)
    stratum[clusters.origin] = clusters.linked[clusters.group]
    order = used[np.argsort(stratum[used], kind="stable")]
    sizes = np.unique(stratum[order], return_counts=True)[1]
    size, start = np.repeat(sizes, sizes), np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.zeros(clusters.origins, np.int64)
    place[order] = np.arange(len(order))
    by_group = np.argsort(clusters.group, kind="stable")
    groups, begins = np.unique(clusters.group[by_group], return_index=True)
    origin, rows = place[clusters.origin[by_group]], outcomes[by_group].astype(np.int64)
    step = max(1, _CELLS // rows.size)
    for first in range(0, how.replicates, step):
        r = min(step, how.replicates - first)
        drawn = start + generator.integers(0, size, size=(r, len(order)))
        drawn += len(order) * np.arange(r)[:, None]
        times = np.bincount(drawn.ravel(), minlength=r * len(order)).reshape(r, -1)[:, origin]
        counts = np.zeros((r, clusters.groups, rows.shape[1]), np.int64)
        for column in range(rows.shape[1]):
            counts[:, groups, column] = np.add.reduceat(times * rows[:, column], begins, axis=1)
        yield counts


def interval_of(estimate: float, drawn: FloatArray, how: Resampling, method: str) -> Interval:
    """The percentile interval of the replicates; nan when any of them is."""
    tail = (1 - how.level) / 2
    undefined = int(np.isnan(drawn).sum())
    low, high = (math.nan, math.nan) if undefined else np.quantile(drawn, [tail, 1 - tail]).tolist()
    return Interval(estimate, low, high, how.level, len(drawn), how.seed, undefined, method)


def _drawer(codes: IntArray, generator: np.random.Generator) -> Callable[[], IntArray]:
    """Draw as many clusters as there are, with replacement, each with all its rows."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes

    def draw() -> IntArray:
        drawn = generator.integers(0, len(sizes), size=len(sizes))
        lengths = sizes[drawn]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(order[np.repeat(starts[drawn], lengths) + within])

    return draw
