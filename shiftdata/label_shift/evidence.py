"""What an estimate of a label marginal rests on, checked once, and what can be wrong with it.

EstimationError
├── AbsentClassError      a class has no example, or no prediction, in the hold-out
├── SingularMatrixError   the predictions do not separate the classes
└── NotConvergedError     an iteration did not end, or has no finite end
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftdata.errors import InputError, ShiftdataError

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

#: How far the probabilities of a row may be from summing to 1: half precision rounds this much.
SUM_TOLERANCE = 5e-3


class EstimationError(ShiftdataError):
    """The data do not allow this estimate; `fallback="mean"` takes the mean prediction instead."""


class AbsentClassError(EstimationError):
    """A class has no example, or no prediction, in the source hold-out."""


class SingularMatrixError(EstimationError):
    """The predictions on the hold-out do not separate the classes."""


class NotConvergedError(EstimationError):
    """An iteration did not converge."""


@dataclass(frozen=True, eq=False)
class MarginalEstimate:
    """An estimate of the target's label marginal.

    `weights` are marginal / source marginal, nan for a class that the hold-out lacks. `method` names the
    estimator, its variant and, after an arrow, what it fell back to. The marginal sums to 1, but for the
    released code's RLLS, which does not make it.
    """

    marginal: Floats
    weights: Floats
    method: str
    iterations: int
    converged: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Predictions and labels of a source hold-out, and predictions on the target.

    `soft` says whether the predictions are probabilities; if not, each is 1 for the predicted class.
    """

    source: Floats
    labels: Integers
    target: Floats
    soft: bool

    @property
    def n_classes(self) -> int:
        return int(self.target.shape[1])

    @property
    def prior(self) -> Floats:
        """The label marginal of the hold-out."""
        return np.bincount(self.labels, minlength=self.n_classes) / len(self.labels)

    @property
    def observed(self) -> Floats:
        """The mean prediction on the target."""
        return np.asarray(self.target.mean(axis=0))

    @property
    def confusion(self) -> Floats:
        """Mean of f_i(x) 1[y = j] over the hold-out: row i predicted, column j true."""
        sums = [np.bincount(self.labels, column, self.n_classes) for column in self.source.T]
        return np.stack(sums) / len(self.labels)

    def hardened(self) -> Evidence:
        """The same with all the mass of each row on its most probable class."""
        return replace(self, source=_one_hot(self.source), target=_one_hot(self.target), soft=False)

    def need_every_class(self) -> None:
        """Refuse a hold-out in which a class has no example: nothing can be learnt about its weight."""
        absent = np.flatnonzero(self.prior == 0)
        if absent.size:
            raise AbsentClassError(
                f"{named_classes(absent)} of {self.n_classes} have no example among the {len(self.labels)} "
                'of the hold-out: add some, leave these classes out everywhere, or pass fallback="mean"'
            )

    def estimate(
        self, marginal: Floats, method: str, *, iterations: int = 1, converged: bool = True
    ) -> MarginalEstimate:
        """The record of an estimate; its weights follow from the marginal."""
        nowhere = np.full(self.n_classes, np.nan)
        weights = np.divide(marginal, self.prior, out=nowhere, where=self.prior > 0)
        return MarginalEstimate(marginal, weights, method, iterations, converged)


def evidence_of(source: ArrayLike, labels: ArrayLike, target: ArrayLike) -> Evidence:
    """Check predictions and labels. Predictions are probabilities, a row each, or class numbers."""
    numbers = class_numbers(labels, "labels")
    given = {"source": np.asarray(source), "target": np.asarray(target)}
    soft = all(array.ndim == 2 for array in given.values())
    if not soft and any(array.ndim == 2 for array in given.values()):
        raise InputError("source and target must both be probabilities (2 axes) or both class numbers (1)")
    if soft:
        rows = {name: probabilities_of(array, name) for name, array in given.items()}
    else:
        classes = {name: class_numbers(array, name) for name, array in given.items()}
        n_classes = 1 + max(int(array.max()) for array in (numbers, *classes.values()))
        rows = {name: np.eye(n_classes)[array] for name, array in classes.items()}
    evidence = Evidence(source=rows["source"], labels=numbers, target=rows["target"], soft=soft)
    (n, k), highest = evidence.source.shape, int(numbers.max())
    if n != len(numbers):
        raise InputError(f"source has {n} rows and labels {len(numbers)}: give a label for each row")
    if k != evidence.n_classes:
        raise InputError(f"source has {k} classes and target {evidence.n_classes}: they must be the same")
    if highest >= k:
        raise InputError(f"labels go up to {highest}, and the predictions have {k} classes")
    return evidence


def probabilities_of(values: ArrayLike, what: str) -> Floats:
    """Probabilities in double precision, each row summing to exactly 1; anything else is refused."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        rule = "must have a row for each example and a column for each class"
        raise InputError(f"{what} {rule}, got {array.shape}")
    sums = array.sum(axis=1, keepdims=True)
    if not (array >= 0).all() or not (np.abs(sums - 1) <= SUM_TOLERANCE).all():
        rule = "must be probabilities: at least 0, each row summing to 1"
        raise InputError(f"{what} {rule}. Softmax logits first")
    return np.asarray(array / sums)


def named_classes(classes: Integers) -> str:
    """Some class numbers as text."""
    shown = ", ".join(map(str, classes[:5].tolist()))
    return f"classes {shown}, ..." if classes.size > 5 else f"classes {shown}"


def class_numbers(values: ArrayLike, what: str) -> Integers:
    """One class number for each example; anything else is refused."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "biu" or int(array.min()) < 0:
        raise InputError(
            f"{what} must be one class number, at least 0, for each example; got {array.dtype} {array.shape}"
        )
    return array.astype(np.int64)


def _one_hot(probabilities: Floats) -> Floats:
    return np.asarray(np.eye(probabilities.shape[1])[probabilities.argmax(axis=1)])
