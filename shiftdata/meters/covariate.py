"""Covariate shift on frozen features: the discrepancy of two row sets, and the view of a domain classifier.

The discrepancy (NICO++, definitions 4.1 and 4.2) is the supremum over two hypotheses h1, h2 of
|E_source l(h1, h2) - E_target l(h1, h2)|. Here l is the 0-1 loss, and a hypothesis says on which side of a
plane a row lies. What is reported is the difference that fitted pairs show on rows they have not seen, with
its sign: its expectation is never above the discrepancy, nor the discrepancy above the total variation of the
two distributions (proposition 4.1). Without a shift it is near 0, and may be a little below.

Equation 8 of the paper prints one objective twice; the second must be the negation of the first, as the
supremum is of an absolute value. For half-spaces one search serves both: if h1 and h2 disagree where the
source is, h1 and the other side of h2 disagree where the target is, with exactly the same difference.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.meters.fits import fit_half_spaces, fit_linear
from shiftdata.meters.sides import Origins, check_fit, feature_sides
from shiftdata.metrics import Interval
from shiftdata.metrics.records import Record, number


@dataclass(frozen=True, kw_only=True)
class CovariateShift(Record):
    """An estimate of the discrepancy distance, 0 (no shift) to 1.

    `directions` has the difference that either objective reached, of which the larger is the value.
    `n_source` and `n_target` count the rows that were measured. The interval draws these rows anew and keeps
    the fitted hypotheses, so it is somewhat narrow: at 95 % it contained the mean over new data in 79 to
    90 % of simulations.
    """

    interval: Interval
    directions: tuple[float, float]
    n_source: int
    n_target: int
    hypotheses: str
    repeats: int

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
            f"covariate shift {self.interval}\n"
            f"n={self.n_source:,} and {self.n_target:,}; {self.hypotheses}; "
            f"domain error {number(self.domain_error)}"
        )


@dataclass(frozen=True, kw_only=True)
class DomainClassifier(Record):
    """How well a linear classifier separates source from target; both sides weigh the same."""

    accuracy: Interval
    n_source: int
    n_target: int
    penalty: float
    repeats: int

    derived: ClassVar[tuple[str, ...]] = ("error", "distance")

    @property
    def error(self) -> float:
        return 1 - self.accuracy.estimate

    @property
    def distance(self) -> float:
        """2 x accuracy - 1, the distance of equation 14 over half-spaces: 0 (no shift) to 1."""
        return 2 * self.accuracy.estimate - 1

    def __str__(self) -> str:
        return f"domain classifier: accuracy {self.accuracy}\ndistance {number(self.distance)}"


def covariate_shift(
    source: Any,
    target: Any,
    *,
    origins: Origins | None = None,
    components: int = 64,
    penalty: float = 0.03,
    repeats: int = 5,
    seed: int = 0,
) -> CovariateShift:
    """The discrepancy of two row sets under pairs of half-spaces and the 0-1 loss, each row unseen.

    Swapping source and target changes nothing. A pair of half-spaces sees a shift of means, a change of the
    variance in one direction or of one correlation; of several changes the largest.

    Args:
        source: Features, a row an example.
        target: Features of the other set; not necessarily as many rows.
        origins: A pair of sequences with the name of what each row was made from. Where one origin has
            several rows, they then lie in one half, and are drawn together for the interval.
        components: Planes are fitted on this many principal components of the rows to fit on.
        penalty: Of the squared weights; larger ones fit less to few rows.
        repeats: How often the rows are cut into halves anew. Figures are means over them.
        seed: Keys the halves and the interval.

    """
    check_fit(penalty=penalty, components=components, repeats=repeats)
    rows, sides = feature_sides(source, target, origins, symmetric=True)
    disagreement = np.zeros(len(rows))
    for fit, unseen in sides.folds(seed, repeats):
        disagree = fit_half_spaces(rows[fit], sides.target[fit], components=components, penalty=penalty)
        disagreement[unseen] += disagree(rows[unseen]) / repeats
    interval = sides.interval(disagreement, operator.sub, seed)
    return CovariateShift(
        interval=interval,
        directions=(interval.estimate, interval.estimate),
        n_source=len(source),
        n_target=len(target),
        hypotheses=f"pairs of half-spaces on {min(components, rows.shape[1])} components, 0-1 loss",
        repeats=repeats,
    )


def domain_classifier(
    source: Any,
    target: Any,
    *,
    origins: Origins | None = None,
    penalty: float = 0.1,
    repeats: int = 5,
    seed: int = 0,
) -> DomainClassifier:
    """The view of appendix A.2: how well a logistic regression on frozen features separates the domains.

    "h1 and h2 disagree" is itself a classifier of domains, so the discrepancy is 2 x the best accuracy - 1.
    One half-space is the simplest of these classifiers; its distance falls short of `covariate_shift` where
    the shift is not one of means. Arguments are those of `covariate_shift`.
    """
    check_fit(penalty=penalty, repeats=repeats)
    rows, sides = feature_sides(source, target, origins, symmetric=True)
    balance = np.where(sides.target, 1 / sides.n_target, 1 / sides.n_source)
    correct = np.zeros(len(rows))
    codes = sides.target.astype(np.int64)
    for fit, unseen in sides.folds(seed, repeats):
        classify = fit_linear(rows[fit], codes[fit], penalty=penalty, row_weights=balance[fit])
        correct[unseen] += (classify(rows[unseen]) == codes[unseen]) / repeats
    accuracy = sides.interval(correct, lambda at_source, at_target: (at_source + at_target) / 2, seed)
    return DomainClassifier(
        accuracy=accuracy, n_source=len(source), n_target=len(target), penalty=penalty, repeats=repeats
    )
