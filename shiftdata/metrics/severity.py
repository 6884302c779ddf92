"""Accuracy along a continuous shift, and how far it drops from the untouched images."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import (
    FloatArray,
    IntArray,
    as_codes,
    as_floats,
    as_labels_and_predictions,
    check_lengths,
)
from shiftdata.metrics.records import Record, number, table
from shiftdata.metrics.statistics import accuracies, count_correct


@dataclass(frozen=True, eq=False)
class SeverityAccuracy(Record):
    """The accuracy of each shift (row) at each severity (column), as CNS-Bench reports it.

    A shift without rows at a severity has accuracy nan and n = 0 there, and so is the mean of that column.
    """

    severities: FloatArray
    shifts: tuple[Hashable, ...]
    accuracy: FloatArray
    n: IntArray

    derived: ClassVar[tuple[str, ...]] = ("mean", "overall")

    @property
    def mean(self) -> FloatArray:
        """The accuracy at each severity, the mean over shifts (CNS-Bench, A.1.3 and table 2)."""
        mean: FloatArray = self.accuracy.mean(axis=0)
        return mean

    @property
    def overall(self) -> FloatArray:
        """The share of rows that are right at each severity, all shifts together."""
        return accuracies(count_correct(self.accuracy, self.n).sum(axis=0), self.n.sum(axis=0))

    @property
    def drops(self) -> FloatArray:
        """By how much each shift's accuracy at each severity is below that at scale 0."""
        if self.severities[0] != 0:
            raise InputError(f"a drop needs rows at severity 0; the lowest is {self.severities[0]:g}")
        return self.accuracy[:, :1] - self.accuracy

    @property
    def drop(self) -> FloatArray:
        """The drop at each severity, the mean over shifts."""
        mean: FloatArray = self.drops.mean(axis=0)
        return mean

    @property
    def mean_drop(self) -> float:
        """The drop averaged over all severities; scale 0 counts with its drop of 0, as in table 2."""
        return float(self.drop.mean())

    def table(self) -> str:
        """One line a shift, one column a severity, and the mean."""
        header = ["shift", *(f"{severity:g}" for severity in self.severities)]
        rows = zip([*self.shifts, "mean"], [*self.accuracy, self.mean], strict=True)
        return table(header, [[str(name), *map(number, row)] for name, row in rows])

    def __str__(self) -> str:
        return self.table()


def severity_accuracy(
    labels: Any, predictions: Any, severities: Any, *, shifts: Any = None, n_classes: int | None = None
) -> SeverityAccuracy:
    """Accuracy at each severity, and for each shift if the rows' shifts are given.

    >>> result = severity_accuracy([0, 0, 1, 1], [0, 0, 1, 0], [0.0, 0.5, 0.0, 0.5])
    >>> result.mean.tolist(), result.drop.tolist(), result.mean_drop
    ([1.0, 0.5], [0.0, 0.5], 0.25)
    """
    true, predicted = as_labels_and_predictions(labels, predictions, n_classes)
    steps, step = severity_steps(severities)
    names, shift = (("all",), np.zeros(len(true), np.int64)) if shifts is None else as_codes("shifts", shifts)
    check_lengths(labels=true, severities=step, shifts=shift)
    cell, cells = shift * len(steps) + step, len(names) * len(steps)
    shape = (len(names), len(steps))
    n = np.bincount(cell, minlength=cells).reshape(shape)
    correct = np.bincount(cell[true == predicted], minlength=cells).reshape(shape)
    return SeverityAccuracy(steps, names, accuracies(correct, n), n)


def severity_steps(severities: Any) -> tuple[FloatArray, IntArray]:
    """The severities that occur, from low to high, and the position of each row's.

    Six decimals count: 0.1 + 0.2 and 0.3 are one severity.
    """
    values = as_floats("severities", severities).round(6)
    if values.min() < 0:
        raise InputError(f"severities: the lowest is {values.min():g}; they start at 0, the untouched image")
    steps, step = np.unique(values, return_inverse=True)
    return steps, step.astype(np.int64, copy=False)
