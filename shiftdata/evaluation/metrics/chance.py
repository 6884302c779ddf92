"""The accuracy of the worst group by chance alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.data.arrays import FloatArray, as_ids
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import Record, number


@dataclass(frozen=True, eq=False)
class WorstByChance(Record):
    """The distribution of the lowest group accuracy when all groups are equally hard.

    Of many groups with one true accuracy p, the worst still looks worse than p (SMA, appendix E.4, bounds
    this by a normal approximation). Here P(min > t) is the product over groups of P(X_g > t n_g), binomial.
    `values` are the accuracies that the minimum can take, `probability` that of each.
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
        reached = np.flatnonzero(np.cumsum(self.probability) >= q - 1e-12)
        return float(self.values[reached[0] if len(reached) else -1])

    def at_most(self, observed: float) -> float:
        """The probability of a worst group this low by chance alone: if it is small, groups do differ."""
        return min(1.0, float(self.probability[self.values <= observed + 1e-12].sum()))

    def __str__(self) -> str:
        low, high = number(self.quantile(0.025)), number(self.quantile(0.975))
        return (
            f"worst of {self.groups:,} equal groups at accuracy {number(self.accuracy)}: "
            f"{number(self.expected)} expected, {low} to {high} in 95 %"
        )


def worst_by_chance(n: Any, accuracy: float, *, groups: int | None = None) -> WorstByChance:
    """The worst group's accuracy if every group had the same true accuracy.

    `n` is the number of rows of each group, or of all `groups`.

    >>> print(worst_by_chance(40, 0.9, groups=400))
    worst of 400 equal groups at accuracy 0.9000: 0.7376 expected, 0.6750 to 0.7750 in 95 %
    """
    if not 0 <= accuracy <= 1:
        raise InputError(f"accuracy must be between 0 and 1, got {accuracy}")
    if (np.ndim(n) == 0) != (groups is not None):
        raise InputError("give one n with groups=, or one n for each group without it")
    array = as_ids("n", np.atleast_1d(n))
    if empty := int((array == 0).sum()):
        raise InputError(f"n: {empty} groups are empty and have no accuracy; leave them out")
    sizes, counts = np.unique(array, return_counts=True)
    counts *= groups or 1
    values = np.unique(np.concatenate([np.arange(size + 1) / size for size in sizes]))
    log_above = np.zeros(len(values))  # of P(min > value)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        below = (values * size + 1e-9).astype(np.int64)  # the most correct rows at or below value
        log_above += (count * _log_above(size, accuracy))[below]
    above = np.exp(log_above)
    return WorstByChance(accuracy, int(counts.sum()), values, -np.diff(above, prepend=1.0))


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
