"""The accuracy of the worst group by chance alone."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from shiftdata.data.arrays import FloatArray, as_ids
from shiftdata.errors import InputError


class WorstByChance(NamedTuple):
    """The distribution of the lowest group accuracy when all groups are equally hard.

    Of many groups with one true accuracy p, the worst still looks worse than p (SMA, appendix E.4, bounds
    this by a normal approximation). Here P(min > t) is the product over groups of P(X_g > t n_g), binomial.
    `values` are the accuracies that the minimum can take, `probability` that of each.
    """

    values: FloatArray
    probability: FloatArray

    @property
    def expected(self) -> float:
        return float(self.values @ self.probability)

    def at_most(self, observed: float) -> float:
        """The probability of a worst group this low by chance alone: if it is small, groups do differ."""
        return min(1.0, float(self.probability[self.values <= observed + 1e-12].sum()))


def worst_by_chance(n: Any, accuracy: float) -> WorstByChance:
    """The worst group's accuracy if every group, of `n` rows each, had the same true accuracy.

    >>> round(worst_by_chance([40] * 400, 0.9).expected, 4)
    0.7376
    """
    if not 0 <= accuracy <= 1:
        raise InputError(f"accuracy must be between 0 and 1, got {accuracy}")
    sizes, counts = np.unique(as_ids("n", n), return_counts=True)
    if sizes[0] == 0:
        raise InputError(f"n: {counts[0]} groups are empty and have no accuracy; leave them out")
    values = np.unique(np.concatenate([np.arange(size + 1) / size for size in sizes]))
    log_above = np.zeros(len(values))  # of P(min > value)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        below = (values * size + 1e-9).astype(np.int64)  # the most correct rows at or below value
        log_above += (count * _log_above(size, accuracy))[below]
    # P(min = value) = P(min > the value before) - P(min > value), the first from 1.
    return WorstByChance(values, -np.diff(np.exp(log_above), prepend=1.0))


def _log_above(n: int, p: float) -> FloatArray:
    """Logarithms of the binomial P(X > k) for k = 0 .. n, each from the smaller tail for precision."""
    mass = binomial(n, p)
    at_most = np.cumsum(mass)
    above = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0)
    with np.errstate(divide="ignore"):  # log 0 is -inf, as it should be
        return np.where(at_most < 0.5, np.log1p(-np.minimum(at_most, 0.5)), np.log(above))


def binomial(n: int, p: float) -> FloatArray:
    """P(X = k) for k = 0 .. n, by logarithms so that it neither over- nor underflows."""
    successes = np.arange(n + 1)
    if p in (0, 1):
        return np.where(successes == n * p, 1.0, 0.0)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(successes[1:]))])
    log_ways = log_factorial[-1] - log_factorial - log_factorial[::-1]
    return np.asarray(np.exp(log_ways + successes * math.log(p) + successes[::-1] * math.log1p(-p)))
