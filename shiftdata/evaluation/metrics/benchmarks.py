"""Figures about a benchmark, from recorded accuracies: ranks of methods, leaks of test information."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from shiftdata.data.arrays import FloatArray, as_floats, check_lengths
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import number


class SelectionLeakage(NamedTuple):
    """The accuracy of each test domain under selection on validation data, and on test domains.

    `oracle` has a row for each K from 1: the accuracies under selection on K test domains at once.
    """

    iid: FloatArray
    oracle: FloatArray

    @property
    def leakage(self) -> FloatArray:
        """For each K: mean accuracy under oracle selection minus that under IID selection."""
        return np.asarray(self.oracle.mean(axis=1) - self.iid.mean())


def selection_leakage(validation: Any, test: Any) -> SelectionLeakage:
    """Compare model selection on validation data with selection on K test domains, for every K.

    DomainBed-v2, section 2.2 and table 4. For every combination of K domains the setting with the highest
    accuracy over them is chosen; a domain's figure is the mean over the combinations that contain it. `test`
    has a row per setting and a column per test domain.

    >>> selection_leakage([0.9, 0.8], [[0.5, 0.5], [0.7, 0.4]]).leakage.round(3).tolist()
    [0.1, 0.05]
    """
    scores, accuracy = as_floats("validation", validation), as_floats("test", test, ndim=2)
    check_lengths(validation=scores, test=accuracy)
    oracle = np.stack([_oracle(accuracy, k) for k in range(1, accuracy.shape[1] + 1)])
    return SelectionLeakage(accuracy[scores.argmax()], oracle)


def _oracle(accuracy: FloatArray, k: int) -> FloatArray:
    """Each domain's accuracy under the oracle of `k` domains, the mean over combinations with it."""
    domains = accuracy.shape[1]
    total, times = np.zeros(domains), np.zeros(domains)
    for chosen in map(list, combinations(range(domains), k)):
        best = accuracy[:, chosen].sum(axis=1).argmax()
        total[chosen] += accuracy[best, chosen]
        times[chosen] += 1
    return total / times


@dataclass(frozen=True, eq=False)
class RankAgreement:
    """Two rankings of the same methods: their ranks and how far they agree."""

    first: FloatArray
    second: FloatArray
    spearman: float
    kendall: float

    @property
    def change(self) -> FloatArray:
        """Places that each method gained from the first to the second (DomainBed-v2, table 5)."""
        return self.first - self.second

    def __str__(self) -> str:
        return f"Spearman {number(self.spearman)}, Kendall {number(self.kendall)} ({len(self.first)} methods)"


def ranks(values: Any, *, lower_is_better: bool = False) -> FloatArray:
    """The rank of each value, 1 for the best; equal values share the mean of their ranks.

    >>> ranks([69.6, 72.9, 69.0, 72.9]).tolist()
    [3.0, 1.5, 4.0, 1.5]
    """
    array = as_floats("values", values)
    signed = array if lower_is_better else -array
    _, inverse, counts = np.unique(signed, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[inverse])


def spearman(a: Any, b: Any) -> float:
    """The rank correlation of two lists of values; nan where one of them does not vary.

    >>> round(spearman([1, 2, 3, 4], [1, 2, 4, 3]), 3)
    0.8
    """
    first, second = ranks(a), ranks(b)
    check_lengths(a=first, b=second)
    return _cosine(first - first.mean(), second - second.mean())


def rank_agreement(a: Any, b: Any, *, lower_is_better: bool = False) -> RankAgreement:
    """Rank the same methods by two lists of values, in the same order, and compare the rankings."""
    first = ranks(a, lower_is_better=lower_is_better)
    second = ranks(b, lower_is_better=lower_is_better)
    check_lengths(a=first, b=second)
    if len(first) < 2:
        raise InputError("two rankings are compared over at least 2 methods, got 1")
    pairs = np.triu_indices(len(first), 1)
    signs = [np.sign(np.subtract.outer(places, places))[pairs] for places in (first, second)]
    return RankAgreement(first, second, spearman(first, second), _cosine(signs[0], signs[1]))


def _cosine(a: FloatArray, b: FloatArray) -> float:
    """Kendall's tau b is the cosine of the signs of all pairs, Pearson's r that of the centred values."""
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length else float("nan")
