"""The data of an estimate of a label marginal, checked once, and the error that they may cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, IntArray, as_codes, as_floats, as_ids, check_lengths
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.evaluation.metrics.records import some

#: Tolerated distance of a row's sum from 1: half precision rounds this much.
SUM_TOLERANCE = 5e-3

#: Above, rounding errors of double precision alone could change the estimate.
LARGEST_CONDITION = 1e7


class EstimationError(ShiftdataError):
    """The data do not allow this estimate; the method "mean" always can."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Predictions and labels of a source hold-out, and predictions on the target.

    `soft`: the predictions are probabilities; otherwise each row is one-hot. Intervals draw the rows of one
    origin together.
    """

    source: FloatArray
    labels: IntArray
    target: FloatArray
    soft: bool
    source_origins: IntArray
    target_origins: IntArray

    @property
    def n_classes(self) -> int:
        return int(self.target.shape[1])

    @property
    def prior(self) -> FloatArray:
        """The label marginal of the hold-out."""
        return np.bincount(self.labels, minlength=self.n_classes) / len(self.labels)

    @property
    def observed(self) -> FloatArray:
        """The mean prediction on the target."""
        return np.asarray(self.target.mean(axis=0))

    @property
    def class_means(self) -> FloatArray:
        """The mean of f_i(x) over the hold-out rows of class j: row i predicted, column j true."""
        return np.asarray(self.confusion / self.prior)

    @property
    def confusion(self) -> FloatArray:
        """Mean of f_i(x) 1[y = j] over the hold-out: row i predicted, column j true."""
        sums = [np.bincount(self.labels, column, self.n_classes) for column in self.source.T]
        return np.stack(sums) / len(self.labels)

    def need_every_class(self) -> None:
        """Refuse a hold-out in which a class has no example: its weight cannot be estimated."""
        absent = np.flatnonzero(self.prior == 0)
        if absent.size:
            raise EstimationError(
                f"{named_classes(absent)} of {self.n_classes} have no example among the {len(self.labels)} "
                "of the hold-out: add some, or leave these classes out everywhere"
            )


def evidence_of(
    source: ArrayLike,
    labels: ArrayLike,
    target: ArrayLike,
    *,
    origins: ArrayLike | None = None,
    source_origins: ArrayLike | None = None,
) -> Evidence:
    """Check predictions and labels. Predictions are rows of probabilities, or class ids."""
    numbers = as_ids("labels", labels)
    soft = {np.ndim(source) == 2, np.ndim(target) == 2}
    if len(soft) == 2:
        raise InputError("source and target must both be probabilities (2 axes) or both class ids (1)")
    if True in soft:
        rows = [probabilities_of(source, "source"), probabilities_of(target, "target")]
    else:
        classes = [as_ids("source", source), as_ids("target", target)]
        n_classes = 1 + max(int(array.max()) for array in (numbers, *classes))
        rows = [np.eye(n_classes)[array] for array in classes]
    check_lengths(source=rows[0], labels=numbers)
    k, k_target = (array.shape[1] for array in rows)
    if k != k_target:
        raise InputError(f"source has {k} classes and target {k_target}: they must be the same")
    as_ids("labels", numbers, k)
    return Evidence(
        source=rows[0],
        labels=numbers,
        target=rows[1],
        soft=True in soft,
        source_origins=_origins("source_origins", source_origins, rows[0]),
        target_origins=_origins("origins", origins, rows[1]),
    )


def _origins(name: str, values: ArrayLike | None, rows: FloatArray) -> IntArray:
    """The origin of each row as a number; without names every row is its own."""
    codes = np.arange(len(rows)) if values is None else as_codes(name, values)[1]
    check_lengths(**{name: codes, "rows": rows})
    return codes


def probabilities_of(values: ArrayLike, name: str) -> FloatArray:
    """Check probabilities; return them in double precision, each row summing to exactly 1."""
    array = as_floats(name, values, ndim=2)
    sums = array.sum(axis=1, keepdims=True)
    if not (array >= 0).all() or not (np.abs(sums - 1) <= SUM_TOLERANCE).all():
        raise InputError(
            f"{name} must be probabilities: at least 0, each row summing to 1. Softmax logits first"
        )
    return np.asarray(array / sums)


def named_classes(classes: IntArray) -> str:
    """The first class ids as text."""
    return f"classes {some(classes.tolist(), 5)}"
