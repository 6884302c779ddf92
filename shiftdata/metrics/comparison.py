"""Comparing two methods on the same rows: the interval of their difference, and McNemar's test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import (
    IntArray,
    as_ids,
    as_labels_and_predictions,
    as_predictions,
    check_lengths,
)
from shiftdata.metrics.bootstrap import DEFAULT, Interval, Resampling, draw_counts, interval
from shiftdata.metrics.records import Record, number
from shiftdata.metrics.statistics import GroupStatistic, accuracies, statistic_of
from shiftdata.stable import rng

#: Up to so many rows on which the methods differ, `mcnemar` is exact.
EXACT_LIMIT = 10_000


@dataclass(frozen=True)
class McNemar(Record):
    """McNemar's test that two methods err equally often: on rows where one is right and the other wrong."""

    only_a: int
    only_b: int
    p_value: float
    method: str

    def __str__(self) -> str:
        return (
            f"McNemar p = {self.p_value:.3g} ({self.method}; "
            f"only A right {self.only_a:,}, only B right {self.only_b:,})"
        )


@dataclass(frozen=True)
class PairedComparison(Record):
    """Two methods on the same rows. `difference` is A minus B; McNemar's test is of all rows together."""

    statistic: str
    a: float
    b: float
    difference: Interval
    mcnemar: McNemar

    def __str__(self) -> str:
        return (
            f"{self.statistic}: A {number(self.a)}, B {number(self.b)}\n"
            f"A - B {self.difference}\n{self.mcnemar}"
        )


def mcnemar(only_a: int, only_b: int) -> McNemar:
    """McNemar's two-sided test from the rows that only A, and that only B, has right.

    Up to 10,000 such rows it is the exact binomial test with probability one half; beyond, chi-square with
    one degree of freedom and the continuity correction.

    >>> print(mcnemar(9, 1))
    McNemar p = 0.0215 (exact binomial; only A right 9, only B right 1)
    """
    if min(only_a, only_b) < 0:
        raise InputError(f"counts of rows cannot be negative, got {only_a} and {only_b}")
    n = only_a + only_b
    if n <= EXACT_LIMIT:
        return McNemar(only_a, only_b, _binomial_p(min(only_a, only_b), n), "exact binomial")
    chi_square = max(0, abs(only_a - only_b) - 1) ** 2 / n
    p_value = math.erfc(math.sqrt(chi_square / 2))
    return McNemar(only_a, only_b, p_value, "asymptotic chi-square, continuity-corrected")


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
    McNemar p = 0.5 (exact binomial; only A right 2, only B right 0)
    """
    figure = statistic_of(statistic)
    true, first = as_labels_and_predictions(labels, a, n_classes)
    second = as_predictions(b, n_classes, name="predictions of B")
    check_lengths(labels=true, b=second)
    outcomes = _outcomes(first == true, second == true, groups, n_groups)
    generator = rng(resampling.seed, "metrics", "compare")
    drawn = [np.subtract(*_both(figure, counts)) for counts in draw_counts(outcomes, resampling, generator)]
    of_a, of_b = (float(value) for value in _both(figure, outcomes))
    by = "stratified by group" if groups is not None and resampling.stratify else "by row"
    difference = interval(of_a - of_b, np.concatenate(drawn), resampling, f"percentile, {by}")
    test = mcnemar(int(outcomes[:, 1].sum()), int(outcomes[:, 2].sum()))
    return PairedComparison(figure.name, of_a, of_b, difference, test)


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


def _binomial_p(k: int, n: int) -> float:
    """P(X <= k or X >= n - k) for n fair coins, k <= n / 2."""
    i = np.arange(1, k + 1)
    log_ways = np.concatenate([[0.0], np.cumsum(np.log((n - i + 1) / i))])
    return min(1.0, 2 * float(np.exp(log_ways - n * math.log(2)).sum()))
