"""Tests of paired differences: of two methods by origin, of their means over tasks or seeds; Holm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shiftdata.data.arrays import FloatArray
from shiftdata.evaluation.metrics.chance import binomial
from shiftdata.evaluation.metrics.statistics import spread, student, student_quantile

#: Rows up to which the paired test is exact.
EXACT_ROWS = 20_000


def paired_test(differences: Any) -> float:
    """The two-sided p-value that two methods are equally good, from their difference on each origin.

    A difference is how many rows of an origin only the first method has right, minus those that only the
    second has. If the methods are equally good, each is as likely with the other sign (R. A. Fisher's
    randomization of pairs): where no origin has two rows this is McNemar's exact test (Q. McNemar,
    Psychometrika 12, 1947). Exact up to 20,000 rows; beyond, the normal limit z = sum d / root of sum d^2,
    which is N. A. Obuchowski's test of clustered matched pairs (Statistics in Medicine 17, 1998) with the
    variance under the hypothesis (Z. Yang, X. Sun and J. W. Hardin, Biometrical Journal 52, 2010).

    >>> paired_test([1, 1, 1, 1, 1]), paired_test([5]), paired_test([0, 0])
    (0.0625, 1.0, 1.0)
    """
    array = np.abs(np.asarray(differences, np.int64))
    total, observed = int(array.sum()), abs(int(np.sum(differences)))
    if observed == 0:
        return 1.0
    if total > EXACT_ROWS:
        return math.erfc(observed / math.sqrt(2 * float((array.astype(np.float64) ** 2).sum())))
    # The sum over origins with a plus, U, has the distribution of the sum over sizes m of m times a binomial;
    # the difference is 2 U - total, and its distribution is symmetric.
    mass = np.ones(1)
    for size, times in zip(*np.unique(array[array > 0], return_counts=True), strict=True):
        spaced = np.zeros(int(size * times) + 1)
        spaced[::size] = binomial(int(times), 0.5)
        mass = np.convolve(mass, spaced)
    return min(1.0, 2 * math.fsum(mass[(total + observed) // 2 :]))


def student_test(differences: FloatArray, level: float = 0.95) -> tuple[float, float, float]:
    """The interval of a mean and the p-value that it is 0.

    Equal differences give nan: they show that seeds are no replicates (a method that draws nothing), not that
    the mean is certain.
    """
    n = len(differences)
    error = spread(differences) / math.sqrt(n)
    if n < 2 or not error > 1e-9 * max(1.0, float(np.abs(differences).max())):
        return math.nan, math.nan, math.nan
    mean, reach = float(differences.mean()), student_quantile(level, n - 1) * error
    return mean - reach, mean + reach, max(0.0, 1 - student(mean / error, n - 1))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values; nan stays nan and counts as no comparison.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    tests = sorted((value, place) for place, value in enumerate(p) if not math.isnan(value))
    adjusted, largest = [math.nan] * len(p), 0.0
    for rank, (value, place) in enumerate(tests):
        largest = max(largest, min(1.0, value * (len(tests) - rank)))
        adjusted[place] = largest
    return adjusted


def shown_p(p: float) -> str:
    """Write a p-value for people.

    >>> shown_p(0.0312), shown_p(0.0004), shown_p(math.nan)
    ('0.031', '<0.001', '-')
    """
    return "-" if math.isnan(p) else f"{p:.3f}" if p >= 0.001 else "<0.001"
