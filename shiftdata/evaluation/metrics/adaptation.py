"""Figures of domain adaptation: the H-score of UniDA, and the error of an estimated label marginal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from shiftdata.data.arrays import FloatArray, as_floats, as_ids, as_predictions, check_lengths, one_of
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import accuracies

#: The mean over known rows as in SMA's released code, or over known classes as in OVANet's.
Average: TypeAlias = Literal["rows", "classes"]


@dataclass(frozen=True)
class HScore(Record):
    """The accuracy on known classes, on unknown ones, and `h`, their harmonic mean (SMA, section 3.2.1).

    A part without rows is nan (over classes: with a shared class without rows), and so is the H-score; it is
    0 when both parts are 0.
    """

    h: float
    known: float
    unknown: float
    n_known: int
    n_unknown: int

    def __str__(self) -> str:
        return (
            f"H-score {number(self.h)}: known {number(self.known)} (n={self.n_known:,}), "
            f"unknown {number(self.unknown)} (n={self.n_unknown:,})"
        )


def h_score(
    labels: Any,
    predictions: Any,
    *,
    shared: Sequence[int],
    unknown: int,
    average: Average = "rows",
) -> HScore:
    """The H-score of universal domain adaptation on target rows.

    A label that is not `shared` by source and target is unknown; predictions give it the id `unknown`.

    >>> print(h_score([0, 1, 7, 8], [0, 0, -1, -1], shared=[0, 1], unknown=-1))
    H-score 0.6667: known 0.5000 (n=2), unknown 1.0000 (n=2)
    """
    one_of("average", average, ("rows", "classes"))
    if unknown in shared:
        raise InputError(f"the id {unknown} is that of unknown classes and cannot be a shared class")
    classes = np.unique(as_ids("shared", shared))
    true = as_ids("labels", labels, also=-1)
    predicted = as_predictions(predictions, also=unknown)
    check_lengths(labels=true, predictions=predicted)
    known = np.isin(true, classes)
    right = np.where(known, predicted == true, predicted == unknown)
    position = np.searchsorted(classes, true[known])
    n = np.bincount(position, minlength=len(classes))
    correct = np.bincount(position[right[known]], minlength=len(classes))
    of_known = float(accuracies(correct, n).mean()) if average == "classes" else _share(right[known])
    of_unknown = _share(right[~known])
    total = of_known + of_unknown
    h = 2 * of_known * of_unknown / total if total != 0 else 0.0
    return HScore(h, of_known, of_unknown, int(known.sum()), int((~known).sum()))


def label_marginal(labels: Any, n_classes: int) -> FloatArray:
    """The share of each class among labels or predictions.

    >>> label_marginal([0, 0, 2, 1], 4).tolist()
    [0.5, 0.25, 0.25, 0.0]
    """
    ids = as_ids("labels", labels, n_classes)
    return np.bincount(ids, minlength=n_classes) / len(ids)


def label_marginal_l1(estimated: Any, true: Any) -> float:
    """The l1 error of an estimated target label marginal (RLSbench, evaluation criteria): 0 to 2.

    >>> label_marginal_l1([0.5, 0.5], [0.75, 0.25])
    0.5
    """
    marginals = {"estimated": as_floats("estimated", estimated), "true": as_floats("true", true)}
    for name, shares in marginals.items():
        if (shares < 0).any() or abs(shares.sum() - 1) > 1e-6:
            raise InputError(
                f"{name}: shares of classes are not negative and sum to 1, got a sum of {shares.sum():g}"
            )
    check_lengths(**marginals)
    return float(np.abs(marginals["estimated"] - marginals["true"]).sum())


def _share(right: np.ndarray[Any, Any]) -> float:
    return float(right.mean()) if len(right) else math.nan
