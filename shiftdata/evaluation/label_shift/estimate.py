"""An estimated label marginal: shares, weights, intervals, a table to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, as_floats, check_lengths
from shiftdata.errors import InputError
from shiftdata.evaluation.label_shift.calibration import Calibrator
from shiftdata.evaluation.label_shift.evidence import Evidence
from shiftdata.evaluation.label_shift.intervals import DEFAULT, Replicates, replicate
from shiftdata.evaluation.metrics import Interval, Resampling
from shiftdata.evaluation.metrics.records import number
from shiftdata.tables import aligned


@dataclass(frozen=True, eq=False)
class MarginalEstimate:
    """An estimate of the target's label marginal.

    `weights` are marginal / source marginal, nan for a class that the hold-out lacks. `method` names the
    estimator, its variant and, after an arrow, what it fell back to; `caveat` says why it may be biased. The
    marginal sums to 1, but for RLLS and BBSE of released codes, which do not make it.

    `low` and `high` are the ends of each share's 95 % interval: it holds the true share under label shift,
    whichever the estimator, and is stretched to hold the estimate too. They are computed when first read.
    """

    marginal: FloatArray
    weights: FloatArray
    method: str
    iterations: int
    converged: bool
    caveat: str
    #: What the predictions were calibrated by: `reweight(estimate.calibrator(predictions), estimate)`.
    calibrator: Calibrator | None
    evidence: Evidence = field(repr=False)

    @property
    def low(self) -> FloatArray:
        return self.bounds()[0]

    @property
    def high(self) -> FloatArray:
        return self.bounds()[1]

    def bounds(self, resampling: Resampling = DEFAULT) -> tuple[FloatArray, FloatArray]:
        """The ends of each share's interval, of another level, seed or number of replicates.

        From 0 to 1 where the data say nothing: a class without source rows, classes predicted alike.
        """
        replicates = self._replicates(resampling)
        if replicates is None:
            return np.minimum(0, self.marginal), np.maximum(1, self.marginal)
        low, high = replicates.bounds()
        return np.minimum(low, self.marginal), np.maximum(high, self.marginal)

    def weight_bounds(self, resampling: Resampling = DEFAULT) -> tuple[FloatArray, FloatArray]:
        """The ends of each weight's interval; the hold-out's own shares are divided by, as `weights` does."""
        prior = self.evidence.prior
        low, high = (over_prior(bound, prior) for bound in self.bounds(resampling))
        return low, high

    def distance(self, reference: ArrayLike, resampling: Resampling = DEFAULT) -> Interval:
        """The L1 distance of the target's shares from other ones, such as the source's.

        It differs from the true one by at most the L1 error of the shares (the triangle inequality), so that
        the interval is cautious.
        """
        other = as_floats("reference", reference)
        check_lengths(reference=other, marginal=self.marginal)
        replicates = self._replicates(resampling)
        found = float(np.abs(self.marginal - other).sum())
        low, high = 0.0, 2.0
        if replicates is not None:
            near = np.maximum(replicates.solution, 0)
            centre, error = float(np.abs(near / near.sum() - other).sum()), replicates.l1_error()
            low, high = max(0.0, min(found, centre - error)), min(2.0, max(found, centre + error))
        how = resampling
        return Interval(found, low, high, how.level, how.replicates, how.seed, 0, "triangle inequality")

    def table(self, names: Sequence[str] | None = None) -> str:
        """Label, share and interval, a line each; `names` are those of the labels."""
        shown = list(names) if names is not None else [str(label) for label in range(len(self.marginal))]
        if len(shown) != len(self.marginal):
            raise InputError(f"{len(shown)} names for {len(self.marginal)} labels: give one a label")
        known = self.evidence
        columns = zip(shown, self.marginal, self.low, self.high, known.prior, strict=True)
        rows = [
            [name, number(share, 3), f"{number(low, 3)} - {number(high, 3)}", number(source, 3)]
            for name, share, low, high, source in columns
        ]
        header = ["label", "share", f"{100 * DEFAULT.level:g} % interval", "source"]
        head = f"{self.method}, {len(known.labels):,} source and {len(known.target):,} target rows"
        return "\n".join([head, aligned(header, rows), *([f"note: {self.caveat}"] if self.caveat else [])])

    def __str__(self) -> str:
        return self.table()

    @cached_property
    def _usual(self) -> Replicates | None:
        return self._draw(DEFAULT)

    def _replicates(self, resampling: Resampling) -> Replicates | None:
        return self._usual if resampling == DEFAULT else self._draw(resampling)

    def _draw(self, resampling: Resampling) -> Replicates | None:
        evidence = self.evidence
        if self.method.startswith("mlls-") and (evidence.prior > 0).all():
            evidence = _adapted(evidence, self.marginal)
        return replicate(evidence, resampling)


def over_prior(shares: FloatArray, prior: FloatArray) -> FloatArray:
    """Shares as weights, nan for a class that the hold-out lacks."""
    return np.asarray(np.divide(shares, prior, out=np.full(len(prior), np.nan), where=prior > 0))


def _adapted(evidence: Evidence, marginal: FloatArray) -> Evidence:
    """The same with predictions for the estimated marginal, to which each class adds a row lest it be 0."""
    n = len(evidence.target)
    factors = (n * marginal + 1) / (n + len(marginal)) / evidence.prior
    source, target = (rows * factors for rows in (evidence.source, evidence.target))
    source, target = (rows / rows.sum(axis=1, keepdims=True) for rows in (source, target))
    return replace(evidence, source=source, target=target)
