"""Bias-corrected temperature scaling (Guo et al., ICML 2017; Alexandari et al., ICML 2020).

It minimises the negative log-likelihood of softmax(log f / T + b), here by Newton's method. A penalty keeps
the minimum finite where every row of the hold-out is predicted right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.label_shift.evidence import EstimationError, Evidence, probabilities_of

#: The penalty of the calibration: that of a standard normal prior on each bias.
PENALTY = 1.0
#: Smaller probabilities are raised to this, about the smallest of single precision: 0 has no logarithm.
FLOOR = 1e-38
MAX_STEPS = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrator:
    """softmax(log f / temperature + bias), as a function of probabilities f."""

    temperature: float
    bias: FloatArray

    def __call__(self, probabilities: ArrayLike) -> FloatArray:
        logs = _logs(probabilities_of(probabilities, "probabilities"))
        if logs.shape[1] != len(self.bias):
            raise InputError(f"the calibrator is for {len(self.bias)} classes, got {logs.shape[1]}")
        return _softmax(logs / self.temperature + self.bias)


def fit_calibrator(evidence: Evidence) -> Calibrator:
    """Fit the temperature and a bias for each class on the hold-out.

    The mean negative log-likelihood and `PENALTY` / 2n times |b|^2 + .01 (spread of log f / T)^2, convex in
    (1/T, b), are minimised.
    """
    if not evidence.soft:
        raise InputError("class ids cannot be calibrated: give probabilities, or calibrate=False")
    evidence.need_every_class()
    logs, labels = _logs(evidence.source), evidence.labels
    n_classes = logs.shape[1]
    point = np.concatenate([[1.0], np.zeros(n_classes)])
    spread = ((logs - logs.mean(axis=1, keepdims=True)) ** 2).mean()
    ridge = PENALTY / len(labels) * np.array([0.01 * spread] + [1.0] * n_classes)
    loss = _loss(logs, labels, point, ridge)
    for _ in range(MAX_STEPS):
        gradient, curvature = _derivatives(logs, labels, point, ridge)
        # Least squares: where log f does not vary within rows, the row of 1/T is 0, and 1/T stays.
        step = -np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        slope, length = float(gradient @ step), 1.0
        # Halve the step until the loss falls by a share of what its slope promises (Armijo's rule).
        while (new := _loss(logs, labels, point + length * step, ridge)) > loss + 1e-4 * length * slope:
            length /= 2
            if length < 1e-10:
                break
        # The slope is twice the remaining fall of the loss; shorter steps are lost in double precision.
        if slope > -1e-12 or length < 1e-10:
            break
        point, loss = point + length * step, new
    else:
        raise EstimationError(
            f"calibration did not converge in {MAX_STEPS} steps: calibrate on a larger hold-out"
        )
    if point[0] <= 0:
        raise EstimationError(
            "the most likely temperature is not positive: on the hold-out the classifier does worse than "
            "chance. Check that the columns are in the order of the labels"
        )
    return Calibrator(temperature=float(1 / point[0]), bias=point[1:] - point[1:].mean())


def _loss(logs: FloatArray, labels: IntArray, point: FloatArray, ridge: FloatArray) -> float:
    logits = logs * point[0] + point[1:]
    logits -= logits.max(axis=1, keepdims=True)
    loss = (np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]).mean()
    return float(loss + (ridge * point**2).sum() / 2)


def _derivatives(
    logs: FloatArray, labels: IntArray, point: FloatArray, ridge: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient and second derivatives of the loss in (1/T, b_0, ..., b_K-1)."""
    n = len(logs)
    predicted = _softmax(logs * point[0] + point[1:])
    residual = predicted.copy()
    residual[np.arange(n), labels] -= 1
    centred = logs - (predicted * logs).sum(axis=1, keepdims=True)
    weighted = predicted * centred
    gradient = np.concatenate([[(residual * logs).sum() / n], residual.mean(axis=0)]) + ridge * point
    curvature = np.diag(ridge)
    curvature[0, 0] += (weighted * centred).sum() / n
    curvature[0, 1:] = curvature[1:, 0] = weighted.mean(axis=0)
    curvature[1:, 1:] += np.diag(predicted.mean(axis=0)) - predicted.T @ predicted / n
    return gradient, curvature


def _logs(probabilities: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(probabilities, FLOOR)))


def _softmax(logits: FloatArray) -> FloatArray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
