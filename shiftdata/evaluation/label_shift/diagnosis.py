"""Warnings of absent classes, of a nearly singular matrix of predictions, of miscalibrated probabilities."""

from __future__ import annotations

import math
import warnings

import numpy as np

from shiftdata.data.arrays import FloatArray
from shiftdata.evaluation.label_shift.calibration import Calibrator
from shiftdata.evaluation.label_shift.evidence import Evidence, LabelShiftWarning, named_classes

#: A smallest singular value of fewer standard errors than this may as well be 0.
FEWEST_ERRORS = 4.0

#: Miscalibration is reported if its p-value is below this and calibration lowers the log loss by more nats.
P_VALUE, SMALLEST_GAIN = 1e-3, 0.01


def warn_of_classes(evidence: Evidence) -> None:
    """Warn of absent classes, else of predictions that hardly tell some classes apart."""
    absent = np.flatnonzero(evidence.prior == 0)
    if absent.size:
        _warn(
            f"{named_classes(absent)} have no row in the hold-out: no weight is known for them, and every "
            "interval is from 0 to 1. Add rows, or leave these classes out everywhere"
        )
        return
    left, values, right = np.linalg.svd(evidence.class_means)
    smallest, error = float(values[-1]), _error(evidence, left[:, -1], right[-1])
    if smallest < FEWEST_ERRORS * error:
        alike = np.sort(np.argsort(-np.abs(right[-1]))[:2])
        _warn(
            f"the matrix of predictions given the class is nearly singular: its smallest singular value is "
            f"{smallest:.3f} +- {error:.3f} (condition {values[0] / max(smallest, 1e-300):.0f}), mostly for "
            f"classes {alike[0]} and {alike[1]}. Read the intervals, not the shares, of such classes; merge "
            "them, label more source rows, or train a better classifier"
        )


def _error(evidence: Evidence, left: FloatArray, right: FloatArray) -> float:
    """The standard error of a singular value u'Gv: the class means G are independent, each of n_k rows."""
    scores = evidence.source @ left
    n = np.bincount(evidence.labels, minlength=evidence.n_classes)
    means = np.bincount(evidence.labels, scores, evidence.n_classes) / n
    variances = np.bincount(evidence.labels, (scores - means[evidence.labels]) ** 2, evidence.n_classes) / n
    return float(np.sqrt((right**2 * variances / n).sum()))


def warn_of_miscalibration(evidence: Evidence, fitted: Calibrator, advice: str) -> None:
    """Warn if temperature 1 and no bias are far less likely than the fitted ones: a likelihood-ratio test."""
    rows, labels = np.arange(len(evidence.labels)), evidence.labels
    before, after = evidence.source, fitted(evidence.source)
    losses = [float(-np.log(np.maximum(shares[rows, labels], 1e-38)).mean()) for shares in (before, after)]
    gain = losses[0] - losses[1]
    n_origins = len(np.unique(evidence.source_origins))
    chance = _chi_squared_tail(2 * n_origins * gain, evidence.n_classes)
    if chance < P_VALUE and gain > SMALLEST_GAIN:
        right = float((before.argmax(axis=1) == labels).mean())
        _warn(
            f"the classifier is miscalibrated: on {len(labels):,} hold-out rows its mean confidence is "
            f"{before.max(axis=1).mean():.3f} and its accuracy {right:.3f}; temperature "
            f"{fitted.temperature:.2f} and biases lower the log loss from {losses[0]:.3f} to {losses[1]:.3f} "
            f"(likelihood-ratio test, p = {chance:.1g}). {advice}"
        )


def _chi_squared_tail(value: float, freedom: int) -> float:
    """P(chi squared > value): finite sums (Abramowitz and Stegun, 26.4.4 and 26.4.5)."""
    half, odd = max(value, 0) / 2, freedom % 2 / 2
    tail = math.erfc(math.sqrt(half)) if odd else 0.0
    for power in range(freedom // 2):
        exponent = power + odd
        if half:
            tail += math.exp(exponent * math.log(half) - half - math.lgamma(exponent + 1))
        elif not exponent:
            tail += 1
    return min(1.0, tail)


def _warn(text: str) -> None:
    warnings.warn(text, LabelShiftWarning, stacklevel=5)
