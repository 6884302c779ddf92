"""Shares and their spreads: accuracies, standard deviations by convention, intervals and quantiles."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray

Z = 1.959964  # of 95 %
#: Degrees of freedom from which Student's quantile is taken for the normal one: they differ by .2 %.
MANY = 500


def accuracies(correct: IntArray | FloatArray, n: IntArray) -> FloatArray:
    """The accuracy of each group, nan for a group without rows."""
    return np.asarray(np.divide(correct, n, out=np.full(np.shape(correct), np.nan), where=n > 0))


def wilson(correct: float, n: float, z: float = Z) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, `correct` of `n`; from 0 to 1 where n is 0. `z` is the quantile.

    >>> tuple(round(end, 3) for end in wilson(9, 10))
    (0.596, 0.982)
    """
    if n <= 0:
        return 0.0, 1.0
    middle, spare = (correct + z * z / 2) / (n + z * z), z * z / 4 + correct * (n - correct) / n
    half = z * math.sqrt(max(spare, 0)) / (n + z * z)
    return max(0.0, middle - half), min(1.0, middle + half)


def student(t: float, df: int) -> float:
    """The probability that |Student's t| with `df` degrees of freedom is at most |t|.

    The finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.

    >>> round(student(2.776445, 4), 6)
    0.95
    """
    angle = math.atan(abs(t) / math.sqrt(df))
    term = math.cos(angle) if df % 2 else 1.0
    total = term if df > 1 or df % 2 == 0 else 0.0
    for power in range(2 + df % 2, df - 1, 2):
        term *= math.cos(angle) ** 2 * (power - 1) / power
        total += term
    return (2 / math.pi) * (angle + math.sin(angle) * total) if df % 2 else math.sin(angle) * total


@lru_cache(maxsize=MANY)
def student_quantile(level: float, df: int) -> float:
    """Invert `student` by bisection: the distance from 0 within which t lies with probability `level`."""
    low, high = 0.0, 1.0
    while student(high, df) < level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student(middle, df) < level else (low, middle)
    return high


def reach(effective: float, level: float = 0.95) -> float:
    """Half the width of an interval in standard errors, for that many independent observations.

    >>> round(reach(14), 2), round(reach(1e6), 2)
    (2.16, 1.96)
    """
    if math.isnan(effective):
        return math.nan
    return normal(level) if effective > MANY else student_quantile(level, max(1, math.floor(effective) - 1))


def normal(level: float) -> float:
    """Half the width of a normal interval in standard errors."""
    return Z if level == 0.95 else NormalDist().inv_cdf((1 + level) / 2)


def count_correct(accuracy: FloatArray, n: IntArray) -> IntArray:
    """The number of correct rows of each group."""
    return np.asarray(np.rint(np.nan_to_num(accuracy) * n), np.int64)


def spread(values: FloatArray, ddof: int = 1) -> float:
    """The standard deviation over domains, seeds or epochs; nan for fewer than two values.

    The sum of squares is divided by n - 1, as in SMA (section 3.2.2) and equation 9 of NICO++. DomainBed's
    code divides by n, and so do tables 2 and 5 of NICO++: `ddof=0`.

    >>> spread(np.array([1.0, 3.0, 5.0])), spread(np.array([1.0]))
    (2.0, nan)
    """
    return float(values.std(ddof=ddof)) if len(values) > ddof else math.nan
