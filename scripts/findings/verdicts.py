"""From differences to verdicts: Student's intervals, equivalence, and Holm over the claims of a paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from claims import ALIKE, FAR, Kind
from numpy.typing import NDArray

from shiftdata.evaluation.metrics.differences import holm, student_test
from shiftdata.evaluation.metrics.statistics import spread, student

HOLDS, FAILS, EQUAL, OPEN = VERDICTS = ("holds", "does not hold", "no difference", "inconclusive")
#: Of fewer tasks nothing is said: two that agree by luck have the narrowest interval.
FEWEST = 3
LEVEL = 0.05
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tested:
    """A verdict that an interval gives at the level `p` and at no smaller one; nan if none does."""

    verdict: str
    p: float


UNTESTED = Tested(OPEN, math.nan)


def tested(differences: Floats, kind: Kind, margin: float) -> Tested:
    """Return the verdict on a claim with the smallest level at which Student's interval gives it.

    An interval above the claimed bound holds, one below it does not; for a claim to lead, an interval within
    the margin on both sides of 0 shows that there is no difference worth the name.
    """
    error = spread(differences) / math.sqrt(len(differences)) if len(differences) >= FEWEST else 0.0
    if not error > 0:
        return UNTESTED
    mean = float(differences.mean())

    def level(distance: float) -> float:
        return max(0.0, 1 - student(distance / error, len(differences) - 1))

    if kind == "alike":
        return Tested(HOLDS if abs(mean) < ALIKE else FAILS, level(ALIKE - abs(mean)))
    bound = {"leads": 0.0, "not worse": -margin, "far": FAR}[kind]
    sided = Tested(HOLDS if mean > bound else FAILS, level(mean - bound))
    if kind == "leads" and abs(mean) < margin:
        return min(sided, Tested(EQUAL, level(margin - abs(mean))), key=lambda result: result.p)
    return sided


def decided(family: Sequence[Tested]) -> list[Tested]:
    """Adjust the claims of a family by Holm: a verdict stands below .05, all else is inconclusive."""
    adjusted = holm([claim.p for claim in family])
    return [
        Tested(claim.verdict if p < LEVEL else OPEN, p) for claim, p in zip(family, adjusted, strict=True)
    ]


def interval(differences: Floats) -> str:
    """Write the 95 % interval of a mean, not adjusted."""
    low, high = student_test(differences)[:2] if len(differences) > 1 else (math.nan, math.nan)
    return f"{low:+.1f} to {high:+.1f}" if math.isfinite(low) else "-"
