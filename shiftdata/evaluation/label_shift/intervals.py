"""Intervals of label shares, by a bootstrap over both samples.

Under label shift, the mean of any h over the target is a mixture of its class means over the source:

    mean of h(x) over the target = sum_k q_k G_k,    G_k = mean of h(x) over hold-out rows of class k.

Each estimator solves this for the shares q under constraints: h are the predictions (BBSE, RLLS), or the
posteriors under the estimate itself, whose equation is the score of MLLS. The intervals are those of the q
that solves it without constraints. Estimates that are cut at 0 and divided by their sum are biased where
shares are near 0, and so are intervals from their replicates; this q is not. Nor do the intervals rest on
calibrated probabilities, since G is counted from labels: an error of h only changes their width.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.evaluation.label_shift.evidence import LARGEST_CONDITION, Evidence
from shiftdata.evaluation.metrics import Resampling
from shiftdata.stable import rng

#: Half the replicates that other figures have: only their spread is read.
DEFAULT = Resampling(replicates=500)

#: Mean number of rows of the whole hold-out that a replicate adds to each class. Among m rows none may be
#: confused with another class although 1 in m is: without these rows, such a matrix would seem exact.
FOREIGN_ROWS = 0.5

#: Counts in memory at once while drawing: 32 MB.
_CELLS = 1 << 22


@dataclass(frozen=True, kw_only=True, eq=False)
class Replicates:
    """The shares that solve the equation, for the samples and, one row each, for the replicates."""

    solution: FloatArray
    drawn: FloatArray
    target_size: float  # target rows, or as many independent ones as their origins are worth
    how: Resampling

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The interval of each share, within 0 and 1: solution +- z s, or Wilson's end if it is farther out.

        s^2 has two parts. q (1 - q) / n is the variance of n target rows with known labels. As in Wilson's
        interval of a share, it is taken at the end t, so that a class without rows has an interval too:

            (solution - t)^2 = z^2 (s^2 - q (1 - q) / n + t (1 - t) / n)

        s is a quantile spread, since a few replicates, of nearly singular matrices, lie anywhere.
        """
        tail = (1 - self.how.level) / 2
        z, n, q = NormalDist().inv_cdf(1 - tail), self.target_size, self.solution
        low, high = np.quantile(self.drawn, [tail, 1 - tail], axis=0)
        plain, within = (high - low) / 2, np.clip(q, 0, 1)
        rest = np.maximum(plain**2 - z * z * within * (1 - within) / n, 0)
        centre, scale = q + z * z / (2 * n), 1 + z * z / n
        half = np.sqrt(np.maximum(centre**2 - scale * (q**2 - rest), 0))
        low = np.minimum(q - plain, (centre - half) / scale)
        high = np.maximum(q + plain, (centre + half) / scale)
        return np.clip(low, 0, 1), np.clip(high, 0, 1)


def replicate(evidence: Evidence, how: Resampling = DEFAULT) -> Replicates | None:
    """Solve the equation for replicates of both samples; None where it has no single solution.

    Hold-out rows are drawn within their class; rows of one origin are drawn together.
    """
    if (evidence.prior == 0).any() or not np.linalg.cond(evidence.class_means) < LARGEST_CONDITION:
        return None
    generator = rng(how.seed, "label-shift", "bootstrap")
    matrices = np.empty((how.replicates, evidence.n_classes, evidence.n_classes))
    all_sums, all_sizes = _by_origin(evidence.source, evidence.source_origins)
    for label in range(evidence.n_classes):
        rows = evidence.labels == label
        sums, sizes = _resampled(evidence.source[rows], evidence.source_origins[rows], how, generator)
        foreign = generator.integers(len(all_sizes), size=how.replicates)
        times = generator.poisson(FOREIGN_ROWS, how.replicates)
        sums += (times / all_sizes[foreign])[:, None] * all_sums[foreign]
        matrices[:, :, label] = sums / (sizes + times)[:, None]
    sums, sizes = _resampled(evidence.target, evidence.target_origins, how, generator)
    # A singular replicate gets huge shares instead of an error, and so a wide interval.
    matrices += 1e-9 * np.eye(evidence.n_classes)
    drawn = np.linalg.solve(matrices, (sums / sizes[:, None])[:, :, None])[:, :, 0]
    weight = np.bincount(evidence.target_origins)
    return Replicates(
        solution=np.asarray(np.linalg.solve(evidence.class_means, evidence.observed), np.float64),
        drawn=np.asarray(drawn, np.float64),
        target_size=float(weight.sum() ** 2 / (weight**2).sum()),
        how=how,
    )


def _resampled(
    rows: FloatArray, origins: IntArray, how: Resampling, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The sum and the number of rows whose origins are drawn with replacement, for each replicate."""
    units = np.column_stack(_by_origin(rows, origins))
    n, step, parts = len(units), max(1, _CELLS // len(units)), []
    for start in range(0, how.replicates, step):
        counts = generator.multinomial(n, np.full(n, 1 / n), size=min(step, how.replicates - start))
        parts.append(counts.astype(np.float64) @ units)
    drawn = np.concatenate(parts)
    return drawn[:, :-1], drawn[:, -1]


def _by_origin(rows: FloatArray, origins: IntArray) -> tuple[FloatArray, FloatArray]:
    """The sum and the number of rows of each origin."""
    codes = np.unique(origins, return_inverse=True)[1]
    sums = np.stack([np.bincount(codes, column) for column in rows.T], axis=1).astype(np.float64)
    return sums, np.bincount(codes).astype(np.float64)
