"""An estimated label marginal: shares, weights, a table, and intervals by a bootstrap over both samples.

Under label shift, the mean of any h over the target is a mixture of its class means over the source:

    mean of h(x) over the target = sum_k q_k G_k,    G_k = mean of h(x) over hold-out rows of class k.

Each estimator solves this for the shares q under constraints: h are the predictions (BBSE, RLLS), or the
posteriors under the estimate itself, whose equation is the score of MLLS. The intervals are those of the q
that solves it without constraints. Estimates that are cut at 0 and divided by their sum are biased where
shares are near 0, and so are intervals from their replicates; this q is not. Nor do the intervals rest on
calibrated probabilities, since G is counted from labels: an error of h only changes their width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.label_shift.calibration import Calibrator
from shiftdata.evaluation.label_shift.evidence import LARGEST_CONDITION, Evidence
from shiftdata.evaluation.metrics import Resampling
from shiftdata.evaluation.metrics.records import number
from shiftdata.stable import rng
from shiftdata.tables import aligned

#: Half the replicates that other figures have: only their spread is read.
DEFAULT = Resampling(replicates=500)

#: Mean number of rows of the whole hold-out that a replicate adds to each class. Among m rows none may be
#: confused with another class although 1 in m is: without these rows, such a matrix would seem exact.
FOREIGN_ROWS = 0.5


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
    caveat: str
    #: Calibrates the predictions to adapt: `reweight(estimate.calibrator(predictions), estimate)`.
    calibrator: Calibrator | None
    evidence: Evidence = field(repr=False)

    @property
    def low(self) -> FloatArray:
        return self._usual[0]

    @property
    def high(self) -> FloatArray:
        return self._usual[1]

    @cached_property
    def _usual(self) -> tuple[FloatArray, FloatArray]:
        return self.bounds()

    def bounds(self, resampling: Resampling = DEFAULT) -> tuple[FloatArray, FloatArray]:
        """Compute both ends of each share's interval, for any level, seed and number of replicates.

        From 0 to 1 where the data say nothing: a class without source rows, classes predicted alike.
        """
        evidence = self.evidence
        if self.method.startswith("mlls-") and (evidence.prior > 0).all():
            evidence = _adapted(evidence, self.marginal)
        low, high = share_bounds(evidence, resampling)
        return np.minimum(low, self.marginal), np.maximum(high, self.marginal)

    def table(self, names: Sequence[str] | None = None) -> str:
        """Format one line per label: its share, interval and share in the source."""
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


def _adapted(evidence: Evidence, marginal: FloatArray) -> Evidence:
    """Adapt predictions to the estimated marginal, to which each class adds a row so that none is 0."""
    n = len(evidence.target)
    factors = (n * marginal + 1) / (n + len(marginal)) / evidence.prior
    source, target = (rows * factors for rows in (evidence.source, evidence.target))
    source, target = (rows / rows.sum(axis=1, keepdims=True) for rows in (source, target))
    return replace(evidence, source=source, target=target)


def share_bounds(evidence: Evidence, how: Resampling = DEFAULT) -> tuple[FloatArray, FloatArray]:
    """Return both ends of each share's interval: 0 and 1 where the equation has no single solution."""
    # Absent classes have no mean: a matrix of condition inf stands in. `not <` is true for nan too.
    means = evidence.class_means if (evidence.prior > 0).all() else np.zeros((1, 1))
    if not np.linalg.cond(means) < LARGEST_CONDITION:
        return np.zeros(evidence.n_classes), np.ones(evidence.n_classes)
    # The target's rows, or the number of independent rows that their origins are worth.
    weight = np.bincount(evidence.target_origins)
    n = float(weight.sum() ** 2 / (weight**2).sum())
    solution = np.asarray(np.linalg.solve(means, evidence.observed), np.float64)
    return interval(solution, replicate(evidence, how), n, how.level)


def interval(
    solution: FloatArray, drawn: FloatArray, n: float, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the interval of each share, within 0 and 1: q +- z s, or Wilson's end if it is farther out.

    s^2 has two parts. q (1 - q) / n is the variance of n target rows with known labels. As in Wilson's
    interval of a share, it is taken at the end t, so that a class without rows has an interval too:

        (solution - t)^2 = z^2 (s^2 - q (1 - q) / n + t (1 - t) / n)

    s is a quantile spread, since a few replicates, of nearly singular matrices, lie anywhere.
    """
    tail = (1 - level) / 2
    z, q = NormalDist().inv_cdf(1 - tail), solution
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    # plain = z s, rest = z^2 (s^2 - q (1 - q) / n). In powers of t the equation is
    # scale t^2 - 2 centre t + q^2 - rest = 0, and its roots are (centre -+ half) / scale.
    plain, within = (high - low) / 2, np.clip(q, 0, 1)
    rest = np.maximum(plain**2 - z * z * within * (1 - within) / n, 0)
    centre, scale = q + z * z / (2 * n), 1 + z * z / n
    half = np.sqrt(np.maximum(centre**2 - scale * (q**2 - rest), 0))
    low = np.minimum(q - plain, (centre - half) / scale)
    high = np.maximum(q + plain, (centre + half) / scale)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def replicate(evidence: Evidence, how: Resampling = DEFAULT) -> FloatArray:
    """Solve the equation for replicates of both samples, a row of shares for each.

    Hold-out rows are drawn within their class; rows of one origin are drawn together.
    """
    generator = rng(how.seed, "label-shift", "bootstrap")
    matrices = np.empty((how.replicates, evidence.n_classes, evidence.n_classes))
    all_units = _by_origin(evidence.source, evidence.source_origins)
    for label in range(evidence.n_classes):
        rows = evidence.labels == label
        units = _by_origin(evidence.source[rows], evidence.source_origins[rows])
        sums = _resampled(units, how.replicates, generator)
        # The foreign rows: the mean row of a random origin of any class, a Poisson number of times.
        foreign = all_units[generator.integers(len(all_units), size=how.replicates)]
        times = generator.poisson(FOREIGN_ROWS, how.replicates)
        sums += (times / foreign[:, -1])[:, None] * foreign
        matrices[:, :, label] = sums[:, :-1] / sums[:, -1:]
    sums = _resampled(_by_origin(evidence.target, evidence.target_origins), how.replicates, generator)
    # A singular replicate gets huge shares instead of an error, and so a wide interval.
    matrices += 1e-9 * np.eye(evidence.n_classes)
    return np.asarray(np.linalg.solve(matrices, (sums[:, :-1] / sums[:, -1:])[:, :, None])[:, :, 0])


def _by_origin(rows: FloatArray, origins: IntArray) -> FloatArray:
    """Sum the rows of each origin; the last column is their number."""
    codes = np.unique(origins, return_inverse=True)[1]
    columns = [*rows.T, np.ones(len(rows))]
    return np.stack([np.bincount(codes, column) for column in columns], axis=1)


def _resampled(units: FloatArray, replicates: int, generator: np.random.Generator) -> FloatArray:
    """Draw units with replacement and sum them, for each replicate."""
    n, shares = len(units), np.full(len(units), 1 / len(units))
    # One replicate at a time: all counts at once would take replicates x units of memory.
    return np.stack([generator.multinomial(n, shares).astype(float) @ units for _ in range(replicates)])
