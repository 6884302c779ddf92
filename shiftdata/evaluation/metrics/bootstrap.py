"""Intervals of any function of rows, by percentile bootstrap over rows or origins.

Figures of groups have intervals without drawing: `GroupAccuracy.intervals`, `Linear.interval`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.data.arrays import IntArray, as_codes
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.stable import rng


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """Settings of a bootstrap: equal settings and data give equal intervals (under one numpy)."""

    seed: int = 0
    replicates: int = 1000
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.replicates < 1:
            raise InputError(f"replicates must be at least 1, got {self.replicates}")
        if not 0 < self.level < 1:
            raise InputError(f"level must be between 0 and 1, for example 0.95, got {self.level}")


DEFAULT = Resampling()


@dataclass(frozen=True)
class Interval(Record):
    """A figure with its interval; `method` says how it was made."""

    estimate: float
    low: float
    high: float
    method: str
    level: float = 0.95

    def __str__(self) -> str:
        ends = f"[{number(self.low)}, {number(self.high)}]"
        return f"{number(self.estimate)} {ends} ({100 * self.level:g} %, {self.method})"


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
    method = f"percentile, by {'row' if codes is None else 'cluster'}, {resampling.replicates:,} replicates"
    drawn = np.array([statistic(draw()) for _ in range(resampling.replicates)], dtype=np.float64)
    tail = (1 - resampling.level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]).tolist()  # nan where any replicate is
    return Interval(float(statistic(np.arange(n_rows))), low, high, method, resampling.level)


def _drawer(codes: IntArray, generator: np.random.Generator) -> Callable[[], IntArray]:
    """Draw as many clusters as there are, with replacement, each with all its rows."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes

    def draw() -> IntArray:
        drawn = generator.integers(0, len(sizes), size=len(sizes))
        lengths = sizes[drawn]
        # 0 .. length - 1 within each drawn cluster, one after the other.
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(order[np.repeat(starts[drawn], lengths) + within])

    return draw
