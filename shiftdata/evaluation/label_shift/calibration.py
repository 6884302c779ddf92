"""Temperature scaling (Guo et al., ICML 2017); "bcts" adds a bias for each class (Alexandari et al., 2020).

Both minimise the negative log-likelihood of softmax(log f / T + b), here by Newton's method. A penalty keeps
the minimum finite where every row of the hold-out is predicted right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, IntArray, one_of
from shiftdata.errors import InputError
from shiftdata.evaluation.label_shift.evidence import (
    AbsentClassError,
    NotConvergedError,
    evidence_of,
    named_classes,
    probabilities_of,
)

CalibrationKind: TypeAlias = Literal["temperature", "bcts"]

#: The penalty of the default calibration: that of a standard normal prior on each bias.
PENALTY = 1.0
#: Smaller probabilities are raised to this, about the smallest of single precision: 0 has no logarithm.
FLOOR = 1e-38


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrator:
    """softmax(log f / temperature + bias), as a function of probabilities f."""

    temperature: float
    bias: FloatArray
    iterations: int

    def __call__(self, probabilities: ArrayLike) -> FloatArray:
        logs = _logs(probabilities_of(probabilities, "probabilities"))
        if logs.shape[1] != len(self.bias):
            raise InputError(f"the calibrator is for {len(self.bias)} classes, got {logs.shape[1]}")
        return _softmax(logs / self.temperature + self.bias)


def fit_calibrator(
    probabilities: ArrayLike,
    labels: ArrayLike,
    kind: CalibrationKind = "temperature",
    *,
    penalty: float = 0.0,
) -> Calibrator:
    """Fit the temperature, and for "bcts" a bias for each class, on labelled examples.

    `penalty` / 2n times |b|^2 + .01 (spread of log f / T)^2 is added to the mean negative log-likelihood.

    >>> fitted = fit_calibrator([[0.9, 0.1]] * 5, [0, 0, 0, 1, 1])
    >>> fitted([[0.9, 0.1]]).round(3).tolist()
    [[0.6, 0.4]]
    """
    one_of("calibration", kind, ("temperature", "bcts"))
    evidence = evidence_of(probabilities, labels, probabilities)
    with_bias = kind == "bcts"
    if with_bias and not penalty and (evidence.prior == 0).any():
        raise AbsentClassError(
            f"{named_classes(np.flatnonzero(evidence.prior == 0))} have no example to fit a bias on: "
            "use calibration='temperature', or add examples"
        )
    if not penalty and (evidence.source.argmax(axis=1) == evidence.labels).all():
        raise NotConvergedError(
            "every prediction on the hold-out is right, so the best temperature is 0: calibrate on a larger "
            "hold-out, or not at all"
        )
    return _newton(_logs(evidence.source), evidence.labels, with_bias, penalty)


def _newton(
    logs: FloatArray, labels: IntArray, with_bias: bool, penalty: float, max_iterations: int = 100
) -> Calibrator:
    """Minimise the mean negative log-likelihood and the penalty, convex in (1/T, b)."""
    n_classes = logs.shape[1]
    point = np.concatenate([[1.0], np.zeros(n_classes)])
    free = np.array([True] + [with_bias] * n_classes)
    spread = ((logs - logs.mean(axis=1, keepdims=True)) ** 2).mean()
    ridge = penalty / len(labels) * np.array([0.01 * spread] + [1.0] * n_classes)
    loss = _loss(logs, labels, point, ridge)
    for iteration in range(1, max_iterations + 1):
        gradient, curvature = _derivatives(logs, labels, point, ridge)
        step = np.zeros_like(point)
        step[free] = -np.linalg.lstsq(curvature[np.ix_(free, free)], gradient[free], rcond=None)[0]
        slope = float(gradient @ step)
        if slope > -1e-12:  # twice the remaining fall of the loss
            return _calibrator(point, iteration)
        length = 1.0
        while (new := _loss(logs, labels, point + length * step, ridge)) > loss + 1e-4 * length * slope:
            length /= 2
            if length < 1e-10:
                return _calibrator(point, iteration)  # the limit of double precision
        point, loss = point + length * step, new
    raise NotConvergedError(
        f"calibration did not converge in {max_iterations} steps: the hold-out may be too small, or nearly "
        "always predicted right. Calibrate on more data, or not at all"
    )


def _calibrator(point: FloatArray, iterations: int) -> Calibrator:
    if point[0] <= 0:
        raise NotConvergedError(
            "the most likely temperature is not positive: on the hold-out the classifier does worse than "
            "chance. Check that the columns are in the order of the labels"
        )
    bias = point[1:] - point[1:].mean()
    return Calibrator(temperature=float(1 / point[0]), bias=bias, iterations=iterations)


def _loss(logs: FloatArray, labels: IntArray, point: FloatArray, ridge: FloatArray | float = 0.0) -> float:
    logits = logs * point[0] + point[1:]
    logits -= logits.max(axis=1, keepdims=True)
    loss = (np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]).mean()
    return float(loss + (ridge * point**2).sum() / 2)


def _derivatives(
    logs: FloatArray, labels: IntArray, point: FloatArray, ridge: FloatArray | float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Gradient and second derivatives of the loss in (1/T, b_0, ..., b_K-1)."""
    n, n_classes = logs.shape
    predicted = _softmax(logs * point[0] + point[1:])
    residual = predicted.copy()
    residual[np.arange(n), labels] -= 1
    centred = logs - (predicted * logs).sum(axis=1, keepdims=True)
    weighted = predicted * centred
    gradient = np.concatenate([[(residual * logs).sum() / n], residual.mean(axis=0)]) + ridge * point
    curvature = np.diag(ridge * np.ones(n_classes + 1))
    curvature[0, 0] += (weighted * centred).sum() / n
    curvature[0, 1:] = curvature[1:, 0] = weighted.mean(axis=0)
    curvature[1:, 1:] += np.diag(predicted.mean(axis=0)) - predicted.T @ predicted / n
    return gradient, curvature


def _logs(probabilities: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.maximum(probabilities, FLOOR)))


def _softmax(logits: FloatArray) -> FloatArray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
