"""Ranks of methods, how they change between two leaderboards, and how far two leaderboards agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, as_floats, check_lengths
from shiftdata.metrics.records import Record, number


@dataclass(frozen=True, eq=False)
class RankAgreement(Record):
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
    last = counts.cumsum()
    shared: FloatArray = last - (counts - 1) / 2
    return shared[inverse]


def spearman(a: Any, b: Any) -> float:
    """The rank correlation of two lists of values; nan where one of them does not vary.

    >>> round(spearman([1, 2, 3, 4], [1, 2, 4, 3]), 3)
    0.8
    """
    first, second = ranks(a), ranks(b)
    check_lengths(a=first, b=second)
    return _correlation(first, second)


def rank_agreement(a: Any, b: Any, *, lower_is_better: bool = False) -> RankAgreement:
    """Rank the same methods by two lists of values, in the same order, and compare the rankings."""
    first = ranks(a, lower_is_better=lower_is_better)
    second = ranks(b, lower_is_better=lower_is_better)
    check_lengths(a=first, b=second)
    if len(first) < 2:
        raise InputError("two rankings are compared over at least 2 methods, got 1")
    signs = [np.sign(np.subtract.outer(one, one))[np.triu_indices(len(one), 1)] for one in (first, second)]
    return RankAgreement(first, second, _correlation(first, second), _cosine(signs[0], signs[1]))


def _correlation(a: FloatArray, b: FloatArray) -> float:
    return _cosine(a - a.mean(), b - b.mean())


def _cosine(a: FloatArray, b: FloatArray) -> float:
    """Kendall's tau b is the cosine of the signs of all pairs, Pearson's r that of the centred values."""
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length else float("nan")
