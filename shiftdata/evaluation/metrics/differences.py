"""Small-sample statistics of paired differences: Student's interval, an exact sign-flip test, Holm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from shiftdata.data.arrays import FloatArray
from shiftdata.evaluation.metrics.statistics import spread, student, student_quantile
from shiftdata.stable import rng

#: Up to `EXACT` differences all choices of signs are tried; beyond, `DRAWN` of them.
EXACT, DRAWN = 14, 20_000


def student_test(differences: FloatArray, level: float = 0.95) -> tuple[float, float, float]:
    """The interval of a mean and the p-value that it is 0.

    Equal differences give nan: they show that seeds are no replicates (a method that draws nothing), not that
    the mean is certain.
    """
    n = len(differences)
    error = spread(differences, "sma") / math.sqrt(n)
    if n < 2 or not error > 1e-9 * max(1.0, float(np.abs(differences).max())):
        return math.nan, math.nan, math.nan
    mean, reach = float(differences.mean()), student_quantile(level, n - 1) * error
    return mean - reach, mean + reach, max(0.0, 1 - student(mean / error, n - 1))


def sign_flip(differences: FloatArray) -> float:
    """The p-value of a sign-flip test: random signs would give a mean this far from 0. At least 2 / 2^n.

    >>> sign_flip(np.array([1.0, 2.0, 3.0, 1.5]))
    0.125
    """
    n = len(differences)
    if n <= EXACT:
        signs = np.array(list(itertools.product((1, -1), repeat=n)), np.float64)
    else:
        signs = rng(0, "report", "sign-flip").choice([-1.0, 1.0], size=(DRAWN, n))
        signs[0] = 1  # what was observed is one of the choices
    means = np.abs(signs @ differences)
    return float(np.mean(means >= np.abs(differences.sum()) - 1e-9))


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
