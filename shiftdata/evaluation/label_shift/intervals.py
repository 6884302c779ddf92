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


def share_bounds(evidence: Evidence, how: Resampling = DEFAULT) -> tuple[FloatArray, FloatArray]:
    """Return both ends of each share's interval: 0 and 1 where the equation has no single solution."""
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
