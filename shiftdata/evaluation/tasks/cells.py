"""Rows and correct rows of a set by label, nuisance and severity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import GroupAccuracy
from shiftdata.evaluation.metrics.clusters import Clusters
from shiftdata.evaluation.metrics.severity import severity_steps
from shiftdata.evaluation.metrics.statistics import accuracies
from shiftdata.evaluation.tasks.rows import TaskRows

#: The nuisance of content without any.
UNTOUCHED = "untouched"


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows and correct rows of each label, nuisance and severity that has rows or should have some.

    `names` has the possible values of each column, `codes` for each cell the position of its own. `clusters`
    has the origins of the rows; JSON keeps their number `origins` alone (0: not known), so that of an
    evaluation read back only the official figures have errors where an origin has several rows.
    """

    names: Mapping[str, tuple[str, ...]]
    codes: Mapping[str, IntArray]
    n: IntArray
    correct: IntArray
    origins: int
    clusters: Clusters | None = None

    def sums(self, columns: Sequence[str]) -> tuple[list[IntArray], GroupAccuracy]:
        """Add the cells up over all other columns: return the codes of each column, and the accuracy."""
        shape = tuple(max(1, len(self.names[column])) for column in columns)
        joined = np.ravel_multi_index([self.codes[column] for column in columns], shape)
        present, place = np.unique(joined, return_inverse=True)
        codes = [np.asarray(code, np.int64) for code in np.unravel_index(present, shape)]
        named = zip(
            *(self.named(column, code) for column, code in zip(columns, codes, strict=True)), strict=True
        )
        return codes, self._whole().merge(place, tuple(map(" / ".join, named)), " / ".join(columns))

    def _whole(self) -> GroupAccuracy:
        clusters = self.clusters
        if clusters is None and self.origins < self.n.sum():
            clusters = Clusters.unknown(len(self.n))
        return GroupAccuracy(accuracies(self.correct, self.n), self.n, clusters=clusters)

    @property
    def counted(self) -> str:
        """The rows, "300 rows of 34 origins" where these are known and fewer."""
        n = int(self.n.sum())
        return f"{n:,} rows" + (f" of {self.origins:,} origins" if 0 < self.origins < n else "")

    @property
    def all(self) -> GroupAccuracy:
        """All cells as one group."""
        return self._whole().merge(np.zeros(len(self.n), np.int64), ("all",), "all")

    def by(self, columns: Sequence[str]) -> GroupAccuracy:
        return self.sums(columns)[1]

    def named(self, column: str, codes: IntArray) -> list[str]:
        return [self.names[column][code] for code in codes.tolist()]


def cells_of(task: TaskRows, name: str, rows: IntArray, right: np.ndarray[Any, Any]) -> Cells:
    """Count each group and severity; a promised group without rows is there too.

    The groups of untouched content are its labels.
    """
    metadata, expected, nuisances = task.metadata, task.sets[name].expected, task.metadata.nuisances
    group = metadata.group[rows]
    if group.max() < 0:
        group, nuisances, expected = metadata.label[rows], (UNTOUCHED,), np.zeros(len(metadata.labels), bool)
    elif group.min() < 0:
        raise InputError(f"{name} has untouched rows among others: evaluate a set of either")
    origin, severity = metadata.origin[rows], metadata.columns["severity"][rows]
    low, high = severity.min(), severity.max()
    steps, step = (
        (np.array([low]), 0) if low == high else (None, 0) if np.isnan(low) else severity_steps(severity)
    )
    count = 1 if steps is None else len(steps)
    cell = group.astype(np.int64) * count + step
    counted = np.bincount(2 * cell + right, minlength=2 * len(expected) * count).reshape(-1, 2)
    n, correct = counted.sum(axis=1), counted[:, 1]
    promised = np.repeat(expected & (n.reshape(-1, count).sum(axis=1) == 0), count)
    shown = np.flatnonzero((n > 0) | promised)
    label, nuisance = np.divmod(shown // count, len(nuisances))
    names = {"label": metadata.labels, metadata.nuisance_column: nuisances}
    codes = {"label": label, metadata.nuisance_column: nuisance}
    if steps is not None:
        names["severity"], codes["severity"] = tuple(f"{value:g}" for value in steps), shown % count
    place = np.zeros(len(n), np.int64)
    place[shown] = np.arange(len(shown))
    clusters = Clusters.of_rows(place[cell], origin, right.astype(np.float64), len(shown))
    origins = int(np.count_nonzero(np.bincount(origin)))
    return Cells(names, codes, n[shown], correct[shown], origins, clusters)
