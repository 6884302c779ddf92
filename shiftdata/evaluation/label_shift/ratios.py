"""The factors of predictions where the target's label shares differ from those of training."""

from __future__ import annotations

import warnings

import numpy as np

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.evaluation.label_shift.estimators import estimate_marginal
from shiftdata.evaluation.label_shift.evidence import EstimationError

#: Ratios are at least this: a class that is estimated not to occur is unlikely, not impossible.
SMALLEST = 1e-6


class EstimateWarning(UserWarning):
    """The target's label shares could not be estimated; the mean prediction was used instead."""


def log_ratios(
    estimator: str, source: FloatArray, labels: IntArray, target: FloatArray, trained: FloatArray
) -> FloatArray:
    """Return log(p_t / p_train) of each class, 0 for classes without a label.

    `source` and `target` are a classifier's probabilities of rows with `labels` and of the target's rows,
    `trained` the label shares that it was trained on. Where shares cannot be estimated, the mean prediction
    is used instead.
    """
    present = np.unique(labels)
    renumbered = np.searchsorted(present, labels)
    source, target = _shares(source[:, present]), _shares(target[:, present])
    if estimator == "mlls":  # it reads them as posteriors under the label shares of the source rows
        factors = np.bincount(renumbered) / len(labels) / np.maximum(trained[present], SMALLEST)
        source, target = _shares(source * factors), _shares(target * factors)
    try:
        marginal = estimate_marginal(estimator, source, renumbered, target).marginal
    except EstimationError as error:
        warnings.warn(f"{error}; the mean prediction is used instead", EstimateWarning, stacklevel=2)
        marginal = target.mean(axis=0)
    prior = _shares(trained[None, present])[0]
    ratios = np.zeros(len(trained))
    ratios[present] = np.log(np.maximum(marginal / np.maximum(prior, SMALLEST), SMALLEST))
    return ratios


def _shares(p: FloatArray) -> FloatArray:
    """Divide rows by their sums; rows of zeros become uniform."""
    p = np.maximum(p, 1e-12)
    return np.asarray(p / p.sum(axis=1, keepdims=True))
