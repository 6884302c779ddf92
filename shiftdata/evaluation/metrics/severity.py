"""Failure points along a continuous shift (CNS-Bench, A.1.2).

A failure point is the first severity at which a trajectory (an origin under one shift) is classified wrongly.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import (
    FloatArray,
    IntArray,
    as_codes,
    as_floats,
    as_ids,
    check_lengths,
)
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.records import number
from shiftdata.tables import aligned


@dataclass(frozen=True, eq=False)
class FailurePoints:
    """The first failure of each trajectory; `point` is nan where it never fails.

    `shift` has positions in `shifts`, the sorted names.
    """

    severities: FloatArray
    shifts: tuple[Hashable, ...]
    trajectory: tuple[Hashable, ...] = field(repr=False)
    shift: IntArray
    point: FloatArray

    @property
    def beyond(self) -> float:
        """One step of the grid after the last severity: 3 after 0, 1, 2.5, which have 0.5 in common.

        It is the failure point of a trajectory that never fails: the released code's `max_shift`.
        """
        return float(self.severities[-1] + _grid_step(self.severities))

    @property
    def mean(self) -> float:
        """The mean failure point."""
        return float(np.where(np.isnan(self.point), self.beyond, self.point).mean())

    def of(self, shift: Hashable) -> FailurePoints:
        """The trajectories of one shift."""
        rows = np.flatnonzero(self.shift == self.shifts.index(shift))
        names = tuple(self.trajectory[row] for row in rows)
        return FailurePoints(self.severities, (shift,), names, np.zeros_like(rows), self.point[rows])

    @property
    def counts(self) -> IntArray:
        """The number of first failures at each severity."""
        failing = self.point[~np.isnan(self.point)]
        return np.bincount(np.searchsorted(self.severities, failing), minlength=len(self.severities))

    def __str__(self) -> str:
        """The mean failure point of each shift, and the shares of its failures at each severity (table 3)."""
        header = ["shift", "n", "never", "mean", *(f"{severity:g}" for severity in self.severities)]
        parts = [(str(shift), self.of(shift)) for shift in self.shifts]
        rows = []
        for name, part in [*parts, ("all", self)] if len(parts) > 1 else parts:
            failing = int(part.counts.sum())
            shares = part.counts / failing if failing else np.full(len(part.counts), np.nan)
            sizes = [f"{n:,}" for n in (len(part.point), len(part.point) - failing)]
            rows.append([name, *sizes, *map(number, (part.mean, *shares))])
        return aligned(header, rows)


def failure_points(right: Any, severities: Any, *, trajectories: Any, shifts: Any) -> FailurePoints:
    """The failure point of every trajectory of every shift, from which rows are `right`.

    `trajectories` name what the rows of one share, such as the origin; a name may recur in other shifts.

    >>> points = failure_points([1, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2],
    ...                         trajectories=["a", "a", "a", "b", "b", "b"], shifts=["snow"] * 6)
    >>> points.point.tolist(), points.counts.tolist(), points.mean
    ([1.0, nan], [0, 1, 0], 2.0)
    """
    hits = as_ids("right", right, 2)
    steps, step = severity_steps(severities)
    if len(steps) < 2:
        raise InputError(f"severities: only {steps[0]:g} occurs; a failure point needs at least two")
    origins, origin = as_codes("trajectories", trajectories)
    names, shift = as_codes("shifts", shifts)
    check_lengths(right=hits, severities=step, trajectories=origin, shifts=shift)
    pairs, row = np.unique(shift * len(origins) + origin, return_inverse=True)
    of_shift, of_origin = np.divmod(pairs, len(origins))
    cell, shape = row * len(steps) + step, (len(pairs), len(steps))
    present = np.bincount(cell, minlength=len(pairs) * len(steps)).reshape(shape)
    _refuse_incomplete(present, lambda i: f"{origins[of_origin[i]]!r} of shift {names[of_shift[i]]!r}")
    wrong = np.bincount(cell[hits == 0], minlength=present.size).reshape(shape) > 0
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
