"""Covariate shift on frozen features: the discrepancy of two sets of rows.

The discrepancy (NICO++, definitions 4.1 and 4.2) is the supremum over two hypotheses h1, h2 of
|E_source l(h1, h2) - E_target l(h1, h2)|, here with the 0-1 loss and half-spaces as hypotheses. The value is
the difference that fitted pairs reach on unseen rows. Its expectation is never above the discrepancy, nor the
discrepancy above the total variation (proposition 4.1): it is a lower bound, and may be far below, because a
pair of planes sees a shift along one or two directions.

Equation 8 of the paper prints one objective twice; the second must be the negation of the first. For
half-spaces one search serves both: swapping the sides of h2 negates the difference.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.evaluation.meters.fits import COMPONENTS, HalfSpaces, fit_half_spaces
from shiftdata.evaluation.meters.sides import Mask, Origins, feature_sides, jackknifed, margin
from shiftdata.evaluation.metrics import Interval
from shiftdata.evaluation.metrics.records import number


@dataclass(frozen=True, kw_only=True)
class CovariateShift:
    """A lower bound of the discrepancy and of the total variation, 0 (no shift) to 1.

    The interval is for what the best pair of half-spaces would reach: its upper end allows for what fits on
    this many rows miss.
    """

    interval: Interval
    n_source: int
    n_target: int
    hypotheses: str

    @property
    def value(self) -> float:
        return self.interval.estimate

    def __str__(self) -> str:
        # The error of "h1 and h2 disagree" as a classifier of domains (appendix A.2) is 0.5 by chance.
        return (
            f"covariate shift, a lower bound of the total variation, {self.interval}\n"
            f"n={self.n_source:,} and {self.n_target:,}; {self.hypotheses}; "
            f"domain error {number((1 - self.value) / 2)}"
        )


def covariate_shift(
    source: Any, target: Any, *, origins: Origins | None = None, seed: int = 0
) -> CovariateShift:
    """Measure the discrepancy of two sets of features; swapping source and target changes nothing.

    `origins` are those of the source rows and of the target rows: rows of one origin lie in one group and
    count together for the interval. `seed` keys the groups.
    """
    rows, sides = feature_sides(source, target, origins, symmetric=True)

    def fit(mask: Mask) -> HalfSpaces:
        return fit_half_spaces(rows[mask], sides.target[mask])

    disagree, at_half, refitted = np.zeros(len(rows)), np.zeros(len(rows)), []
    for fold in (folds := list(sides.folds(seed))):
        pair = fit(fold.seen)
        disagree[fold.unseen] = pair(rows[fold.unseen])
        at_half[fold.unseen] = fit(fold.halves[0])(rows[fold.unseen])
        refitted.append(operator.sub(*sides.where(fold.seen).means(pair(rows[fold.seen]))))
    value, before = operator.sub(*sides.means(disagree)), operator.sub(*sides.means(at_half))
    # Without a shift the fits vary most; with a large one, the rows that are measured.
    drawn = [operator.sub(*sides.where(fold.seen).means(disagree[fold.seen])) for fold in folds]
    spare = max(margin(refitted), margin(drawn))
    # What fits on n rows miss falls as 1/n or faster, so the best pair gains at most what the step from half
    # of the rows to all of them gained.
    interval = jackknifed(value, [value, max(value, 2 * value - before)], spare, -1, sides)
    return CovariateShift(
        interval=interval,
        n_source=len(source),
        n_target=len(target),
        hypotheses=f"pairs of half-spaces on {min(COMPONENTS, rows.shape[1])} components, 0-1 loss",
    )
