"""Weak evidence: absent classes, a nearly singular matrix of predictions, miscalibrated probabilities."""

from __future__ import annotations

import math

import numpy as np

from shiftdata.evaluation.label_shift.calibration import FLOOR, Calibrator
from shiftdata.evaluation.label_shift.evidence import Evidence, named_classes

#: The smallest singular value counts as 0 if it is below this number of standard errors.
MIN_STANDARD_ERRORS = 4.0
#: Miscalibration is reported if its p-value is below this and calibration lowers the log loss by more nats.
P_VALUE, MIN_GAIN = 1e-3, 0.01


class LabelShiftWarning(UserWarning):
    """The source hold-out or the classifier says too little about the target's label marginal."""


def weak_matrix(evidence: Evidence) -> str:
    """Describe absent classes, or else classes that the predictions hardly separate; "" if there are none."""
    n = np.bincount(evidence.labels, minlength=evidence.n_classes)
    if (absent := np.flatnonzero(n == 0)).size:
        return f"{named_classes(absent)} have no row in the hold-out: add rows, or drop these classes"
    left, values, right = np.linalg.svd(evidence.class_means)
    # The smallest singular value is u'Gv. The columns of G are independent, each a mean of n_k rows, so
    # its variance is the sum over classes of v_k^2 var(u'f) / n_k.
    projected = evidence.source @ left[:, -1]
    means = np.bincount(evidence.labels, projected, evidence.n_classes) / n
    squares = np.bincount(evidence.labels, (projected - means[evidence.labels]) ** 2, evidence.n_classes) / n
    error = float(np.sqrt((right[-1] ** 2 * squares / n).sum()))
    if values[-1] >= MIN_STANDARD_ERRORS * error:
        return ""
    first, second = np.sort(np.argsort(-np.abs(right[-1]))[:2])
    return (
        f"the matrix of predictions given the class is nearly singular (smallest value {values[-1]:.3f} +- "
        f"{error:.3f}), mostly for classes {first} and {second}: merge them, or label more source rows"
    )


def miscalibration(evidence: Evidence, fitted: Calibrator) -> str:
    """Describe probabilities far less likely than calibrated ones, by a likelihood-ratio test."""
    labels, rows = evidence.labels, np.arange(len(evidence.labels))
    before, after = (
        -float(np.log(np.maximum(probabilities[rows, labels], FLOOR)).mean())
        for probabilities in (evidence.source, fitted(evidence.source))
    )
    # Rows of one origin are one row. Temperature and biases, which sum to 0, have n_classes free parameters.
    statistic = 2 * len(np.unique(evidence.source_origins)) * (before - after)
    p = chi_squared_tail(statistic, evidence.n_classes)
    if p >= P_VALUE or before - after <= MIN_GAIN:
        return ""
    return (
        f"the classifier is miscalibrated: on {len(labels):,} hold-out rows its mean confidence is "
        f"{evidence.source.max(axis=1).mean():.3f} and its accuracy "
        f"{(evidence.source.argmax(axis=1) == labels).mean():.3f}; calibration (temperature "
        f"{fitted.temperature:.2f}) lowers the log loss from {before:.3f} to {after:.3f} (p = {p:.1g})"
    )


def chi_squared_tail(value: float, freedom: int) -> float:
    """Return P(chi squared > value): Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1), from Q(1/2) or Q(1)."""
    x, a = max(value, 1e-300) / 2, 0.5 if freedom % 2 else 1.0
    tail = math.erfc(math.sqrt(x)) if freedom % 2 else math.exp(-x)
    while a < freedom / 2:
        tail += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
        a += 1
    return min(1.0, tail)
