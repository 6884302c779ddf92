"""Along a continuous shift: accuracy and its drop (CNS-Bench, A.1.3), and failure points (A.1.2).

A failure point is the first severity at which a trajectory (an origin under one shift) is classified wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import (
    FloatArray,
    IntArray,
    as_codes,
    as_floats,
    as_labels_and_predictions,
    check_lengths,
    one_of,
)
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import accuracies, count_correct
from shiftdata.tables import aligned

#: The divisor of a histogram: `failures`, those at scale 0 too (the paper's table 3); `shifted-failures`,
#: above scale 0 only (figure 7c); `trajectories`, failing or not (the released notebook).
Normalisation: TypeAlias = Literal["failures", "shifted-failures", "trajectories"]
#: The failure point of a trajectory that never fails: one step `beyond` the last severity (3 on CNS-Bench's
#: grid, the released code's `max_shift`), or `left-out` of the mean (the released code's `fp_avg`).
Never: TypeAlias = Literal["beyond", "left-out"]


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
        return np.asarray(self.accuracy.mean(axis=0))

    @property
    def overall(self) -> FloatArray:
        """The accuracy at each severity, all shifts together."""
        return accuracies(count_correct(self.accuracy, self.n).sum(axis=0), self.n.sum(axis=0))

    @property
    def drops(self) -> FloatArray:
        """The drop of each shift's accuracy at each severity from that at scale 0."""
        if self.severities[0] != 0:
            raise InputError(f"a drop needs rows at severity 0; the lowest is {self.severities[0]:g}")
        return self.accuracy[:, :1] - self.accuracy

    @property
    def drop(self) -> FloatArray:
        """The drop at each severity, the mean over shifts."""
        return np.asarray(self.drops.mean(axis=0))

    @property
    def mean_drop(self) -> float:
        """The drop averaged over all severities; scale 0 counts with its drop of 0, as in table 2."""
        return float(self.drop.mean())

    def __str__(self) -> str:
        header = ["shift", *(f"{severity:g}" for severity in self.severities)]
        rows = zip([*self.shifts, "mean"], [*self.accuracy, self.mean], strict=True)
        return aligned(header, [[str(name), *map(number, row)] for name, row in rows])


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


@dataclass(frozen=True, eq=False)
class FailurePoints(Record):
    """The first failure of each trajectory; `point` is nan where it never fails.

    `shift` has positions in `shifts`, the sorted names.
    """

    severities: FloatArray
    shifts: tuple[Hashable, ...]
    trajectory: tuple[Hashable, ...] = field(repr=False)
    shift: IntArray
    point: FloatArray

    derived: ClassVar[tuple[str, ...]] = ("n", "never", "counts")
    omitted: ClassVar[tuple[str, ...]] = ("trajectory", "shift", "point")

    @property
    def n(self) -> int:
        return len(self.point)

    @property
    def never(self) -> int:
        """The number of trajectories that are right at every severity."""
        return int(np.isnan(self.point).sum())

    @property
    def counts(self) -> IntArray:
        """The number of first failures at each severity."""
        failing = self.point[~np.isnan(self.point)]
        return np.bincount(np.searchsorted(self.severities, failing), minlength=len(self.severities))

    @property
    def beyond(self) -> float:
        """One step of the grid after the last severity: 3 after 0, 1, 2.5, which have 0.5 in common."""
        return float(self.severities[-1] + _grid_step(self.severities))

    def of(self, shift: Hashable) -> FailurePoints:
        """The trajectories of one shift."""
        if shift not in self.shifts:
            raise InputError(f"unknown shift {shift!r}; known: {', '.join(map(str, self.shifts))}")
        rows = np.flatnonzero(self.shift == self.shifts.index(shift))
        names = tuple(self.trajectory[row] for row in rows)
        return FailurePoints(self.severities, (shift,), names, np.zeros_like(rows), self.point[rows])

    def histogram(self, normalise: Normalisation = "failures", *, total: int | None = None) -> FloatArray:
        """The share of trajectories that fail first at each severity; nan without any failure.

        Figure 7c of the paper divides by the failures of all compared models together: give their `total`.
        """
        counts = self.counts.astype(np.float64)
        shifted = self.severities > 0
        if normalise == "shifted-failures":
            counts[~shifted] = np.nan
        totals = {
            "failures": self.counts.sum(),
            "shifted-failures": self.counts[shifted].sum(),
            "trajectories": self.n,
        }
        one_of("normalisation", normalise, tuple(totals))
        divisor = totals[normalise] if total is None else total
        return counts / divisor if divisor > 0 else np.full(len(counts), np.nan)

    def cumulative(self, normalise: Normalisation = "failures", *, total: int | None = None) -> FloatArray:
        """The share that has failed at each severity or before; by `failures` it ends in 1 (figure 7b)."""
        return np.nancumsum(self.histogram(normalise, total=total))

    def mean(self, never: Never = "beyond") -> float:
        """The mean failure point."""
        one_of("never", never, ("beyond", "left-out"))
        fails = ~np.isnan(self.point)
        points = self.point[fails] if never == "left-out" else np.where(fails, self.point, self.beyond)
        return float(points.mean()) if len(points) else math.nan

    @property
    def margin(self) -> float:
        """The mean distance of failures from `beyond`: the released code's margin, 0 if none fails."""
        return self.beyond - self.mean("beyond")

    def __str__(self) -> str:
        header = ["shift", "n", "never", "mean", *(f"{severity:g}" for severity in self.severities)]
        parts = [(str(shift), self.of(shift)) for shift in self.shifts]
        rows = []
        for name, part in [*parts, ("all", self)] if len(parts) > 1 else parts:
            figures = [part.mean(), *part.histogram()]
            rows.append([name, f"{part.n:,}", f"{part.never:,}", *map(number, figures)])
        return aligned(header, rows)


def failure_points(
    labels: Any,
    predictions: Any,
    severities: Any,
    *,
    trajectories: Any,
    shifts: Any,
    n_classes: int | None = None,
) -> FailurePoints:
    """The failure point of every trajectory of every shift.

    `trajectories` name what the rows of one share, such as the origin; a name may recur in other shifts.

    >>> points = failure_points([0] * 6, [0, 1, 1, 0, 0, 0], [0, 1, 2, 0, 1, 2],
    ...                         trajectories=["a", "a", "a", "b", "b", "b"], shifts=["snow"] * 6)
    >>> points.point.tolist(), points.counts.tolist(), points.mean(), points.mean("left-out")
    ([1.0, nan], [0, 1, 0], 2.0, 1.0)
    """
    true, predicted = as_labels_and_predictions(labels, predictions, n_classes)
    steps, step = severity_steps(severities)
    if len(steps) < 2:
        raise InputError(f"severities: only {steps[0]:g} occurs; a failure point needs at least two")
    origins, origin = as_codes("trajectories", trajectories)
    names, shift = as_codes("shifts", shifts)
    check_lengths(labels=true, severities=step, trajectories=origin, shifts=shift)
    pairs, row = np.unique(shift * len(origins) + origin, return_inverse=True)
    of_shift, of_origin = np.divmod(pairs, len(origins))
    cell, shape = row * len(steps) + step, (len(pairs), len(steps))
    present = np.bincount(cell, minlength=len(pairs) * len(steps)).reshape(shape)
    _refuse_incomplete(present, lambda i: f"{origins[of_origin[i]]!r} of shift {names[of_shift[i]]!r}")
    wrong = np.bincount(cell[true != predicted], minlength=present.size).reshape(shape) > 0
    point = np.where(wrong.any(axis=1), steps[wrong.argmax(axis=1)], np.nan)
    return FailurePoints(steps, names, tuple(origins[i] for i in of_origin), of_shift, point)


def _grid_step(severities: FloatArray) -> float:
    """The largest step that leads to all severities; if it is tiny, their smallest difference.

    >>> _grid_step(np.array([0, 1, 2.5])), _grid_step(np.array([0, 0.333333, 0.666667]))
    (0.5, 0.333333)
    """
    differences = np.diff(np.rint(severities * 1e6).astype(np.int64))
    common, smallest = int(np.gcd.reduce(differences)), int(differences.min())
    return (common if 10 * common >= smallest else smallest) / 1e6


def _refuse_incomplete(present: IntArray, name: Any) -> None:
    """Refuse trajectories without exactly one row at each severity: their first failure would be a guess."""
    for fault, mask in (
        ("lack a severity", (present == 0).any(axis=1)),
        ("have a severity more than once", (present > 1).any(axis=1)),
    ):
        if mask.any():
            raise InputError(
                f"{int(mask.sum()):,} of {len(present):,} trajectories {fault}, "
                f"first {name(mask.argmax())}; give complete ones, one row at each severity"
            )


def severity_steps(severities: Any) -> tuple[FloatArray, IntArray]:
    """The severities that occur, from low to high, and the position of each row's.

    Six decimals count: 0.1 + 0.2 and 0.3 are one severity.
    """
    values = as_floats("severities", severities).round(6)
    if values.min() < 0:
        raise InputError(f"severities: the lowest is {values.min():g}; they start at 0, the untouched image")
    encoded = pa.array(values).dictionary_encode()  # faster than sorting millions of rows
    steps, place = np.unique(encoded.dictionary.to_numpy(), return_inverse=True)
    return steps, place[encoded.indices.to_numpy()].astype(np.int64, copy=False)
