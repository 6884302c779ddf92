"""An estimated label marginal: shares, weights, intervals, a table to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from shiftdata.data.arrays import FloatArray
from shiftdata.errors import InputError
from shiftdata.evaluation.label_shift.calibration import Calibrator
from shiftdata.evaluation.label_shift.evidence import Evidence
from shiftdata.evaluation.label_shift.intervals import DEFAULT, Replicates, replicate
from shiftdata.evaluation.metrics import Resampling
from shiftdata.evaluation.metrics.records import number
from shiftdata.tables import aligned


@dataclass(frozen=True, eq=False)
class MarginalEstimate:
    """An estimate of the target's label marginal.

    `weights` are marginal / source marginal, nan for a class that the hold-out lacks. `method` names the
    estimator and its variant; `caveat` says why it may be biased. The marginal sums to 1, except for RLLS and
    BBSE of variant "code".

    `low` and `high` are the ends of each share's 95 % interval: it holds the true share under label shift,
    for any estimator, and is stretched to hold the estimate too. They are computed when first read.
    """

    marginal: FloatArray
    weights: FloatArray
    method: str
    iterations: int
    caveat: str
    #: Calibrates the predictions to adapt: `reweight(estimate.calibrator(predictions), estimate)`.
    calibrator: Calibrator | None
    evidence: Evidence = field(repr=False)

    @property
    def low(self) -> FloatArray:
        return self.bounds()[0]

    @property
    def high(self) -> FloatArray:
        return self.bounds()[1]

    def bounds(self, resampling: Resampling = DEFAULT) -> tuple[FloatArray, FloatArray]:
        """The ends of each share's interval, for another level, seed or number of replicates.

        From 0 to 1 where the data say nothing: a class without source rows, classes predicted alike.
        """
        replicates = self._usual if resampling == DEFAULT else self._draw(resampling)
        if replicates is None:
            return np.minimum(0, self.marginal), np.maximum(1, self.marginal)
        low, high = replicates.bounds()
        return np.minimum(low, self.marginal), np.maximum(high, self.marginal)

    def table(self, names: Sequence[str] | None = None) -> str:
        """A line per label: its share, interval and share in the source."""
        labels = list(names) if names is not None else [str(label) for label in range(len(self.marginal))]
        if len(labels) != len(self.marginal):
            raise InputError(f"{len(labels)} names for {len(self.marginal)} labels: give one per label")
        evidence = self.evidence
        columns = zip(labels, self.marginal, self.low, self.high, evidence.prior, strict=True)
        rows = [
            [name, number(share, 3), f"{number(low, 3)} - {number(high, 3)}", number(source, 3)]
            for name, share, low, high, source in columns
        ]
        header = ["label", "share", f"{100 * DEFAULT.level:g} % interval", "source"]
        head = f"{self.method}, {len(evidence.labels):,} source and {len(evidence.target):,} target rows"
        return "\n".join([head, aligned(header, rows), *([f"note: {self.caveat}"] if self.caveat else [])])

    def __str__(self) -> str:
        return self.table()

    @cached_property
    def _usual(self) -> Replicates | None:
        return self._draw(DEFAULT)

    def _draw(self, resampling: Resampling) -> Replicates | None:
        evidence = self.evidence
        if self.method.startswith("mlls-") and (evidence.prior > 0).all():
            evidence = _adapted(evidence, self.marginal)
        return replicate(evidence, resampling)


def _adapted(evidence: Evidence, marginal: FloatArray) -> Evidence:
    """Predictions adapted to the estimated marginal, to which each class adds a row so that none is 0."""
    n = len(evidence.target)
    factors = (n * marginal + 1) / (n + len(marginal)) / evidence.prior
    source, target = (rows * factors for rows in (evidence.source, evidence.target))
    source, target = (rows / rows.sum(axis=1, keepdims=True) for rows in (source, target))
    return replace(evidence, source=source, target=target)
