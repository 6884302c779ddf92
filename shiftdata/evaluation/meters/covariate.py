"""Covariate shift on frozen features: the discrepancy of two row sets.

The discrepancy (NICO++, definitions 4.1 and 4.2) is the supremum over two hypotheses h1, h2 of
|E_source l(h1, h2) - E_target l(h1, h2)|. Here l is the 0-1 loss, and a hypothesis says on which side of a
plane a row lies. What is reported is the difference that fitted pairs show on rows they have not seen, with
its sign: its expectation is never above the discrepancy, nor the discrepancy above the total variation of the
two distributions (proposition 4.1). Without a shift it is near 0, and may be a little below.

Equation 8 of the paper prints one objective twice; the second must be the negation of the first, as the
supremum is of an absolute value. For half-spaces one search serves both: if h1 and h2 disagree where the
source is, h1 and the other side of h2 disagree where the target is, with exactly the same difference.

So the value is a lower bound of the total variation, and may be far below it: pairs of planes see a shift
along a direction or two. Scaling by 2 in two dimensions has a total variation of .47; they find .30 of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.data.arrays import FloatArray
from shiftdata.evaluation.meters.fits import fit_half_spaces
from shiftdata.evaluation.meters.sides import Mask, Origins, check_fit, feature_sides, jackknifed, margin
from shiftdata.evaluation.metrics import Interval
from shiftdata.evaluation.metrics.records import Record, number


@dataclass(frozen=True, kw_only=True)
class CovariateShift(Record):
    """A lower bound of the discrepancy distance and of the total variation, 0 (no shift) to 1.

    The value is the difference that fitted hypotheses reach on rows that they have not seen. On features, the
    interval is of what the best pair of half-spaces would reach: it reaches up by what fits on so few rows
    miss. By training, it is of the networks that were trained, and `directions` has what either objective
    reached, of which the larger is the value. `n_source` and `n_target` count the rows that were measured.
    """

    interval: Interval
    n_source: int
    n_target: int
    hypotheses: str
    directions: tuple[float, float] | None = None
    bound: str = "lower"

    derived: ClassVar[tuple[str, ...]] = ("value", "domain_error")

    @property
    def value(self) -> float:
        return self.interval.estimate

    @property
    def domain_error(self) -> float:
        """The error of "h1 and h2 disagree" as a classifier of domains (appendix A.2): 0.5 by chance."""
        return (1 - self.value) / 2

    def __str__(self) -> str:
        return (
            f"covariate shift, a lower bound of the total variation, {self.interval}\n"
            f"n={self.n_source:,} and {self.n_target:,}; {self.hypotheses}; "
            f"domain error {number(self.domain_error)}"
        )


def covariate_shift(
    source: Any,
    target: Any,
    *,
    origins: Origins | None = None,
    components: int = 64,
    penalty: float = 0.03,
    seed: int = 0,
) -> CovariateShift:
    """The discrepancy of two row sets under pairs of half-spaces and the 0-1 loss, each row unseen.

    Swapping source and target changes nothing. A pair of half-spaces sees a shift of means, a change of the
    variance in one direction or of one correlation; of several changes the largest.

    Args:
        source: Features, a row an example.
        target: Features of the other set; not necessarily as many rows.
        origins: A pair of sequences with the name of what each row was made from. Where one origin has
            several rows, they then lie in one group, and count together for the interval.
        components: Planes are fitted on this many principal components of the training rows.
        penalty: Of the squared weights; larger ones fit less to few rows.
        seed: Keys the groups.

    """
    check_fit(penalty=penalty, components=components)
    rows, sides = feature_sides(source, target, origins, symmetric=True)

    def fit(mask: Mask) -> Callable[[FloatArray], Mask]:
        return fit_half_spaces(rows[mask], sides.target[mask], components=components, penalty=penalty)

    measured, at_half, refitted = np.zeros(len(rows)), np.zeros(len(rows)), []
    for fold in (folds := list(sides.folds(seed))):
        disagree = fit(fold.seen)
        measured[fold.unseen] = disagree(rows[fold.unseen])
        at_half[fold.unseen] = fit(fold.halves[0])(rows[fold.unseen])
        refitted.append(operator.sub(*sides.where(fold.seen).means(disagree(rows[fold.seen]))))
    value, before = operator.sub(*sides.means(measured)), operator.sub(*sides.means(at_half))
    # Where there is nothing to find, fits differ; where there is much, the rows that are measured.
    drawn = [operator.sub(*sides.where(fold.seen).means(measured[fold.seen])) for fold in folds]
    spare = max(margin(refitted), margin(drawn))
    # What fits on n rows miss falls as 1/n or faster: the best pair of half-spaces reaches no more than what
    # the step from half of the rows to all of them adds once more.
    interval = jackknifed(value, [value, max(value, 2 * value - before)], spare, -1, sides, seed)
    return CovariateShift(
        interval=interval,
        n_source=len(source),
        n_target=len(target),
        hypotheses=f"pairs of half-spaces on {min(components, rows.shape[1])} components, 0-1 loss",
    )
