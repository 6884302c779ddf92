"""A linear classifier on frozen features: multinomial logistic regression with a ridge penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shiftdata.meters.descent import minimise
from shiftdata.metrics.arrays import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """Takes each feature to mean 0 and standard deviation 1; a constant one to 0."""

    mean: FloatArray
    factor: FloatArray

    def __call__(self, rows: FloatArray) -> FloatArray:
        return (rows - self.mean) * self.factor


def scaling_of(rows: FloatArray) -> Scaling:
    """The scaling that standardises these rows."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    varies = deviation > 1e-9 * np.abs(rows).max(axis=0, initial=0.0)
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return Scaling(mean=mean, factor=factor)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearClassifier:
    """Scores = standardised rows x weights + bias; the largest is the class."""

    scaling: Scaling
    weights: FloatArray
    bias: FloatArray

    def __call__(self, rows: FloatArray) -> IntArray:
        codes: IntArray = (self.scaling(rows) @ self.weights + self.bias).argmax(axis=1)
        return codes


def fit_linear(
    rows: FloatArray,
    codes: IntArray,
    n_classes: int,
    *,
    penalty: float,
    row_weights: FloatArray | None = None,
) -> LinearClassifier:
    """Minimise the mean cross-entropy + penalty / 2 x the squared weights; the bias is free.

    Rows are standardised first. It is scikit-learn's `LogisticRegression` with C = 1 / (n x penalty).
    """
    shares = np.full(len(rows), 1 / len(rows)) if row_weights is None else row_weights / row_weights.sum()
    scaling = scaling_of(rows)
    scaled, wanted = scaling(rows), np.eye(n_classes)[codes]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        table = flat.reshape(-1, n_classes)
        scores = scaled @ table[:-1] + table[-1]
        scores -= scores.max(axis=1, keepdims=True)
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        value = -float(shares @ (logs * wanted).sum(axis=1)) + penalty / 2 * float((table[:-1] ** 2).sum())
        pull = shares[:, None] * (np.exp(logs) - wanted)
        gradient = np.concatenate([scaled.T @ pull + penalty * table[:-1], pull.sum(axis=0)[None]])
        return value, gradient.ravel()

    found = minimise(loss, np.zeros((rows.shape[1] + 1) * n_classes)).reshape(-1, n_classes)
    return LinearClassifier(scaling=scaling, weights=found[:-1], bias=found[-1])
