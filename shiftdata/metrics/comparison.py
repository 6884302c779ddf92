"""Comparing two methods on the same rows: the bootstrap interval of their difference."""

from __future__ import annotations

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
    drawn = [np.subtract(*_both(figure, counts)) for counts in draw_counts(outcomes, resampling, generator)]
    of_a, of_b = (float(value) for value in _both(figure, outcomes))
    by = "stratified by group" if groups is not None and resampling.stratify else "by row"
    difference = interval(of_a - of_b, np.concatenate(drawn), resampling, f"percentile, {by}")
    only_a, only_b = outcomes.sum(axis=0).tolist()[1:3]
    return PairedComparison(figure.name, of_a, of_b, difference, only_a, only_b)


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
