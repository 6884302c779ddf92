"""Calibration and selective prediction: ECE, Brier score, likelihood, reliability, risk against coverage.

ECE is the mean distance of confidence and accuracy over bins of confidence: of equal width (C. Guo et al.,
ICML 2017), or with equally many rows (K. Nguyen and B. O'Connor, EMNLP 2015). Risk and coverage are those of
Y. Geifman and R. El-Yaniv (NeurIPS 2017): the error among the most confident share of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray, as_floats, as_ids, check_lengths
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.bootstrap import DEFAULT, Interval, Resampling, bootstrap_rows
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import accuracies
from shiftdata.tables import Table

BINS = 15
#: Tolerated distance of a row's sum from 1, for scores that are probabilities already.
SUM_TOLERANCE = 1e-3
#: Coverages and risks for which a table has a line.
COVERAGES, RISKS = (1.0, 0.9, 0.75, 0.5, 0.25), (0.01, 0.05, 0.1, 0.2)


@dataclass(frozen=True, eq=False)
class RiskCoverage(Record):
    """The share of wrong rows (`risk`) among the first 1, 2, ... n rows by falling confidence.

    Rows of equal confidence have the mean over all their orders, so that the order of rows does not matter.
    """

    risk: FloatArray

    @property
    def aurc(self) -> float:
        """The mean risk over all coverages, the area under the curve."""
        return float(self.risk.mean())

    def risk_at(self, coverage: float) -> float:
        """The risk among the most confident share of rows."""
        if not 0 < coverage <= 1:
            raise InputError(f"coverage is a share of rows above 0 and at most 1, got {coverage}")
        return float(self.risk[max(1, int(np.ceil(coverage * len(self.risk) - 1e-9))) - 1])

    def coverage_at(self, risk: float) -> float:
        """The largest coverage with at most this risk; 0 where no row can be predicted."""
        fits = np.flatnonzero(self.risk <= risk + 1e-12)
        return float((fits[-1] + 1) / len(self.risk)) if len(fits) else 0.0


def risk_coverage(confidence: Any, right: Any) -> RiskCoverage:
    """Order rows by confidence, and take the risk of each prefix.

    >>> curve = risk_coverage([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 1])
    >>> curve.risk.round(3).tolist(), curve.coverage_at(0.05)
    ([0.0, 0.0, 0.333, 0.25], 0.5)
    """
    sure, hits = as_floats("confidence", confidence), as_ids("right", right, 2)
    check_lengths(confidence=sure, right=hits)
    _, place, counts = np.unique(-sure, return_inverse=True, return_counts=True)
    wrong = np.bincount(place, 1 - hits)
    ends = np.concatenate([[0], np.cumsum(counts)])
    steps = np.arange(1, len(sure) + 1)
    return RiskCoverage(np.interp(steps, ends, np.concatenate([[0], np.cumsum(wrong)])) / steps)


@dataclass(frozen=True, eq=False)
class Calibration(Record):
    """The calibration of predictions; intervals are over origins where these are given.

    `ece` has bins of equal width, `ece_mass` of equally many rows; noise raises both, and a bootstrap has
    more of it. `brier` sums the squares over classes, 0 to 2. `reliability` has rows, confidence and accuracy
    of each bin of equal width.
    """

    n: int
    accuracy: float
    confidence: float
    ece: Interval
    ece_mass: Interval
    brier: Interval
    nll: Interval
    reliability: FloatArray
    curve: RiskCoverage

    omitted: ClassVar[tuple[str, ...]] = ("curve",)
    derived: ClassVar[tuple[str, ...]] = ("aurc",)

    @property
    def aurc(self) -> float:
        return self.curve.aurc

    def tables(self) -> tuple[Table, Table, Table]:
        """The figures, the reliability table, and selective prediction."""
        named = {"ECE": self.ece, "ECE, equal mass": self.ece_mass, "Brier": self.brier, "NLL": self.nll}
        body = [[name, *map(number, (of.estimate, of.low, of.high))] for name, of in named.items()]
        notes = [f"n = {self.n:,}; accuracy {number(self.accuracy)}, confidence {number(self.confidence)}."]
        edges = np.linspace(0, 1, len(self.reliability) + 1)
        bins = [
            [f"{low:.2f} to {high:.2f}", f"{int(n):,}", number(confidence), number(accuracy)]
            for low, high, (n, confidence, accuracy) in zip(edges, edges[1:], self.reliability, strict=False)
            if n
        ]
        selective = [[f"{of:.0%} of rows", "", number(self.curve.risk_at(of))] for of in COVERAGES]
        selective += [[f"risk {of:.0%}", number(self.curve.coverage_at(of)), ""] for of in RISKS]
        area = [f"AURC {number(self.aurc)}."]
        return (
            Table.plain("Calibration", ["figure", "value", "low", "high"], body, notes),
            Table.plain("Reliability", ["confidence", "rows", "mean confidence", "accuracy"], bins),
            Table.plain("Selective prediction", ["at", "coverage", "risk"], selective, area),
        )

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self.tables())


def measure_calibration(
    scores: Any, labels: Any, *, origins: Any = None, bins: int = BINS, resampling: Resampling = DEFAULT
) -> Calibration:
    """Measure calibration from scores (rows x classes) and the number of each row's class.

    Scores are logits, of which the softmax is taken, unless every row is one of probabilities.

    >>> result = measure_calibration([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.9, 0.1]], [0, 1, 1, 0])
    >>> round(result.ece.estimate, 3), round(result.brier.estimate, 3)
    (0.3, 0.25)
    """
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}")
    probabilities, logs = _probabilities(as_floats("scores", scores, ndim=2))
    true = as_ids("labels", labels, probabilities.shape[1])
    check_lengths(scores=probabilities, labels=true)
    rows, n = np.arange(len(true)), len(true)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == true
    wide, heavy = width_bins(confidence, bins), mass_bins(confidence, bins)
    gap = confidence - right
    squares = (probabilities**2).sum(axis=1) - 2 * probabilities[rows, true] + 1

    def interval(statistic: Callable[[IntArray], Any]) -> Interval:
        return bootstrap_rows(lambda drawn: float(statistic(drawn)), n, resampling, clusters=origins)

    def ece(place: IntArray) -> Interval:
        # The bins stay those of all rows: a replicate draws rows, and not edges.
        return interval(lambda drawn: np.abs(np.bincount(place[drawn], gap[drawn])).sum() / len(drawn))

    sizes = np.bincount(wide, minlength=bins)
    sums = [np.bincount(wide, of, bins) for of in (confidence, right)]
    return Calibration(
        n,
        float(right.mean()),
        float(confidence.mean()),
        ece(wide),
        ece(heavy),
        interval(lambda drawn: squares[drawn].mean()),
        interval(lambda drawn: -logs[rows[drawn], true[drawn]].mean()),
        np.stack([sizes, *(accuracies(of, sizes) for of in sums)], axis=1),
        risk_coverage(confidence, right.astype(np.int64)),
    )


def _probabilities(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return probabilities and their logarithms, which stay finite for any logits."""
    if (scores >= 0).all() and (np.abs(scores.sum(axis=1) - 1) <= SUM_TOLERANCE).all():
        return scores, np.log(np.maximum(scores, np.finfo(np.float32).tiny))
    shifted = scores - scores.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.exp(logs), logs


def width_bins(confidence: FloatArray, bins: int) -> IntArray:
    """The bin of each confidence, of equal width, the upper end in the bin: (0, 1/15], (1/15, 2/15], ...

    >>> width_bins(np.array([0.0, 0.1, 0.5, 0.51, 1.0]), 2).tolist()
    [0, 0, 0, 1, 1]
    """
    edges = np.linspace(0, 1, bins + 1)[1:-1]
    return np.asarray(np.searchsorted(edges, confidence, side="left"), np.int64)


def mass_bins(confidence: FloatArray, bins: int) -> IntArray:
    """The bin of each confidence by its rank, with as many rows in each; equal confidences share one.

    >>> mass_bins(np.array([0.9, 0.6, 0.7, 0.6]), 2).tolist()
    [1, 0, 1, 0]
    """
    rank = np.searchsorted(np.sort(confidence), confidence, side="left")
    return np.asarray(rank * bins // len(confidence), np.int64)
