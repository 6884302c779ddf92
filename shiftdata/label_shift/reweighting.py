"""What an estimated label marginal is for: adapted predictions, and weights for training."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.errors import InputError
from shiftdata.label_shift.evidence import Floats, MarginalEstimate, class_numbers, probabilities_of

#: The label marginal a classifier was trained on: the source's own, or one balanced by resampling.
TrainedOn: TypeAlias = Literal["source", "balanced"]


def reweight(
    probabilities: ArrayLike, estimate: MarginalEstimate, *, trained_on: TrainedOn = "source"
) -> Floats:
    """Adapt predictions to the estimated marginal: the RW of RLSbench (Algorithm 1, step 8; appendix F).

    Multiplies by p_t / p_s, or by p_t alone if the classifier was trained on balanced labels, and divides
    each row by its sum; the adapted prediction is its `argmax(axis=1)`.
    """
    predictions = probabilities_of(probabilities, "probabilities")
    if trained_on not in ("source", "balanced"):
        raise InputError(f"trained_on must be 'source' or 'balanced', got {trained_on!r}")
    factors = _usable(estimate.weights if trained_on == "source" else estimate.marginal)
    if predictions.shape[1] != len(factors):
        raise InputError(
            f"the predictions have {predictions.shape[1]} classes and the estimate {len(factors)}: "
            "they must be the same"
        )
    weighted = predictions * factors
    sums = weighted.sum(axis=1, keepdims=True)
    lost = int((sums == 0).sum())
    if lost:
        raise InputError(
            f"{lost} of {len(sums)} rows have probability only where the estimated weight is 0: "
            "give probabilities that are not exactly 0, or another estimate"
        )
    return np.asarray(weighted / sums)


def importance_weights(estimate: MarginalEstimate, labels: ArrayLike) -> Floats:
    """The weight p_t(y) / p_s(y) of each labelled source example, for a weighted loss.

    As in RLSbench's importance-weighted objectives (appendix L, equations 9 and 10).
    """
    weights = _usable(estimate.weights)
    numbers = class_numbers(labels, "labels")
    if int(numbers.max()) >= len(weights):
        raise InputError(f"labels go up to {int(numbers.max())}, and the estimate has {len(weights)} classes")
    return np.asarray(weights[numbers])


def _usable(factors: Floats) -> Floats:
    unknown = np.flatnonzero(~np.isfinite(factors))
    if unknown.size:
        raise InputError(
            f"the estimate has no weight for classes {unknown.tolist()}, which the hold-out lacked: "
            "estimate with a hold-out that has every class"
        )
    return factors
