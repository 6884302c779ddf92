"""Figures that sum up the groups of a test set, computed for one result or for many bootstrap replicates.

A statistic takes the accuracy and the rows of each group, groups in the last axis, and gives one figure for
each position of the axes before. A group without rows has accuracy nan: a figure that needs it is nan too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.errors import InputError, not_found
from shiftdata.metrics.arrays import FloatArray, IntArray, as_floats


@dataclass(frozen=True)
class GroupStatistic:
    """A named figure over groups; call it with the accuracy and the rows of each group."""

    name: str
    compute: Callable[[FloatArray, IntArray], FloatArray]

    def __call__(self, accuracy: FloatArray, n: IntArray) -> FloatArray:
        return self.compute(accuracy, n)


def accuracies(correct: IntArray | FloatArray, n: IntArray) -> FloatArray:
    """The accuracy of each group, nan where a group has no rows.

    >>> accuracies(np.array([3, 0]), np.array([4, 0])).tolist()
    [0.75, nan]
    """
    undefined = np.full(np.shape(correct), np.nan)
    accuracy: FloatArray = np.divide(correct, n, out=undefined, where=n > 0)
    return accuracy


def worst_of(m: int) -> GroupStatistic:
    """SMA's top-M worst-group accuracy (section 3.1.3): the mean of the M groups that are worst."""
    if m < 1:
        raise InputError(f"m must be at least 1 (how many of the worst groups to average), got {m}")
    return GroupStatistic(f"worst_{m}", lambda accuracy, n: _mean_of_worst(accuracy, m))


def adjusted_average(train_n: Any) -> GroupStatistic:
    """Group accuracies weighted by how frequent each group is in training, as WILDS does for Waterbirds.

    `train_n` has one count or frequency for each group. A group that training never saw has no weight,
    so that it may be empty in the test set too.
    """
    weights = as_floats("train_n", train_n)
    if (weights < 0).any() or weights.sum() == 0:
        raise InputError("train_n: give the counts of the groups in training, none negative, not all 0")
    weights = weights / weights.sum()

    def average(accuracy: FloatArray, n: IntArray) -> FloatArray:
        if accuracy.shape[-1] != len(weights):
            raise InputError(
                f"train_n: {len(weights)} counts for {accuracy.shape[-1]} groups; give one a group"
            )
        weighted = weights > 0
        product: FloatArray = accuracy[..., weighted] @ weights[weighted]
        return product

    return GroupStatistic("adjusted_average", average)


def statistic_of(given: str | GroupStatistic) -> GroupStatistic:
    """A statistic by its name, or the statistic itself."""
    if isinstance(given, GroupStatistic):
        return given
    if given not in _KNOWN:
        raise not_found("statistic", given, _KNOWN, "worst_of(m) and adjusted_average(train_n) give others.")
    return GroupStatistic(given, _KNOWN[given])


def _overall(accuracy: FloatArray, n: IntArray) -> FloatArray:
    correct = np.where(n > 0, accuracy * n, 0).sum(axis=-1)
    return accuracies(correct, n.sum(axis=-1))


def _mean(accuracy: FloatArray, n: IntArray) -> FloatArray:
    mean: FloatArray = accuracy.mean(axis=-1)
    return mean


def _worst(accuracy: FloatArray, n: IntArray) -> FloatArray:
    worst: FloatArray = accuracy.min(axis=-1)
    return worst


def _mean_of_worst(accuracy: FloatArray, m: int) -> FloatArray:
    groups = accuracy.shape[-1]
    if m > groups:
        raise InputError(f"m={m} of the worst groups, and there are {groups}: lower m")
    # A partition would leave nan at the end, unseen.
    undefined = np.isnan(accuracy).any(axis=-1)
    lowest = np.partition(accuracy, m - 1, axis=-1)[..., :m].mean(axis=-1)
    return np.where(undefined, np.nan, lowest)


_KNOWN: dict[str, Callable[[FloatArray, IntArray], FloatArray]] = {
    "mean": _mean,
    "overall": _overall,
    "worst": _worst,
}
