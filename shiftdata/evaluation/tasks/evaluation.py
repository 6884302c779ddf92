"""What predictions are worth on a set of a task: official figures, and the accuracy by what has a name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics import FailurePoints, GroupAccuracy
from shiftdata.evaluation.metrics.clusters import Clusters
from shiftdata.evaluation.metrics.records import Record, number, plain
from shiftdata.evaluation.metrics.severity import severity_steps
from shiftdata.evaluation.metrics.statistics import accuracies
from shiftdata.evaluation.tasks.official import Figure, Judged, accuracy_of, figures_of
from shiftdata.evaluation.tasks.predictions import UNKNOWN, predicted_rows
from shiftdata.evaluation.tasks.sets import Role
from shiftdata.tables import aligned, markdown

if TYPE_CHECKING:
    from PIL import Image

    from shiftdata.evaluation.tasks.task import Task


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
        """The cells added up over all other columns: the codes of each column, and the accuracy."""
        shape = tuple(max(1, len(self.names[column])) for column in columns)
        joined = np.ravel_multi_index([self.codes[column] for column in columns], shape)
        kept, place = np.unique(joined, return_inverse=True)
        codes = [np.asarray(one, np.int64) for one in np.unravel_index(kept, shape)]
        named = zip(*(self.named(*one) for one in zip(columns, codes, strict=True)), strict=True)
        return codes, self._whole().merge(place, tuple(map(" / ".join, named)), " / ".join(columns))

    def _whole(self) -> GroupAccuracy:
        """The accuracy of each cell."""
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


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Record):
    """The figures of one set of a task.

    `figures` are the task's official metrics by name, also as `result["worst"]` or `result.h_score`: floats
    that carry their rows `n` and their standard error `sem` over the `origins` of these. `mean`, `worst` and
    `worst_of(m)` are over
    groups (label and nuisance); `overall`, also named `accuracy`, is the share of rows that are right,
    whatever the task: see `official.py`. `failure_points` are there for continuous shifts whose
    trajectories are complete; JSON does not keep them.
    """

    task: str
    dataset: str
    set: str
    role: Role
    n: int
    figures: Mapping[str, Figure]
    notes: tuple[str, ...]
    nuisance: str
    cells: Cells
    failure_points: FailurePoints | None = None

    omitted: ClassVar[tuple[str, ...]] = ("cells", "failure_points")

    def __getitem__(self, name: str) -> Figure:
        if name in ("accuracy", "overall"):
            return self.accuracy
        if name not in self.figures:
            raise not_found("figure", name, {*self.figures, "accuracy"}, f"It was asked of {self.task}.")
        return self.figures[name]

    def __getattr__(self, name: str) -> Figure:
        figures: Mapping[str, Figure] = self.__dict__.get("figures", {})
        if name not in figures:
            raise AttributeError(f"an evaluation has no {name!r}; figures: {', '.join(figures)}, accuracy")
        return figures[name]

    @property
    def accuracy(self) -> Figure:
        """The share of rows that are right."""
        return self.figures["overall"] if "overall" in self.figures else accuracy_of(self.cells.all)

    @cached_property
    def groups(self) -> GroupAccuracy:
        """The accuracy of each group, by name, with its number of rows."""
        return self.by("group")

    @property
    def overall(self) -> Figure:
        """As `accuracy`."""
        return self.accuracy

    @property
    def mean(self) -> float:
        """The mean over groups."""
        return self.groups.mean

    @property
    def worst(self) -> float:
        """The accuracy of the worst group; `worst_group` is its name."""
        return self.groups.worst

    @property
    def worst_group(self) -> str | None:
        """The name of the worst group, such as "bird / leaves"; None while a group is empty."""
        name = self.groups.worst_group
        return None if name is None else str(name)

    def worst_of(self, m: int) -> float:
        """The mean of the `m` worst groups."""
        return self.groups.worst_of(m)

    def by(self, *columns: str) -> GroupAccuracy:
        """The accuracy by "label", "nuisance" (or its name: "domain"), "severity", "group", or several."""
        return self.cells.by(self._columns(columns))

    def table(self, *by: str) -> pa.Table:
        """The figures, or with `by` the accuracy of what has these names, each with its number of rows."""
        if not by:
            rows = [{"figure": name} | one.to_dict() for name, one in self.figures.items()]
            return pa.Table.from_pylist(rows).select(["figure", "value", "sem", "n", "origins", "of"])
        columns = self._columns(by)
        codes, found = self.cells.sums(columns)
        named = {one: self.cells.named(one, code) for one, code in zip(columns, codes, strict=True)}
        counts = {"n": found.n} | found.differing()
        return pa.table(named | {"accuracy": found.accuracy, "sem": found.sem} | counts)

    def to_markdown(self, *by: str) -> str:
        """`table` as Markdown."""
        return self.by(*by).to_markdown() if by else markdown(*self._lines())

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can say it: the figures, and rows and correct rows of each cell by name."""
        cells = {one: self.cells.named(one, codes) for one, codes in self.cells.codes.items()}
        counts = {"n": self.cells.n, "correct": self.cells.correct, "origins": self.cells.origins}
        return super().to_dict() | {"cells": plain(cells | counts)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Evaluation:
        """The evaluation that `to_dict` stored."""
        cells = stored["cells"]
        n, correct = (np.asarray(cells[one], np.int64) for one in ("n", "correct"))
        columns = {one: cells[one] for one in ("label", stored["nuisance"], "severity") if one in cells}
        names = {one: tuple(dict.fromkeys(values)) for one, values in columns.items()}
        if "severity" in names:
            names["severity"] = tuple(sorted(names["severity"], key=float))
        codes = {
            one: np.array([names[one].index(value) for value in values], np.int64)
            for one, values in columns.items()
        }
        figures = {
            name: Figure(_defined(one["value"]), one["n"], one["of"], _defined(one["sem"]), one["origins"])
            for name, one in stored["figures"].items()
        }
        made = {
            "figures": figures,
            "notes": tuple(stored["notes"]),
            "cells": Cells(names, codes, n, correct, cells.get("origins", 0)),
        }
        return cls(**{**stored, **made})

    def __str__(self) -> str:
        head = f"{self.task}\nof {self.dataset}, {self.set} ({self.role}): {self.n:,} rows\n"
        return "\n".join([head, aligned(*self._lines()), *self.notes])

    __repr__ = __str__

    def picture(self, *by: str) -> Image.Image:
        """A heat map of label and nuisance, bars with their standard errors, or lines along the severity.

        By default what the official metrics ask for. `by` chooses: two columns make a heat map, one makes
        bars, and with "severity" there are lines.
        """
        from shiftdata.evaluation.tasks.charts import draw_bars, draw_lines, draw_map

        columns = self._columns(by or self._drawn())
        others = [one for one in columns if one != "severity"]
        if len(columns) > 2:
            raise InputError(f"a picture shows one or two columns, got {', '.join(columns)}")
        if len(others) < len(columns):
            return draw_lines(self, *others)
        return draw_bars(self, *others) if len(others) == 1 else draw_map(self, *others)

    def _drawn(self) -> tuple[str, ...]:
        if "mean_failure_point" in self.figures:
            return "nuisance", "severity"
        return ("nuisance",) if "mean_domain" in self.figures else ("label", "nuisance")

    def _columns(self, asked: Sequence[str]) -> list[str]:
        meant = {"nuisance": [self.nuisance], "group": ["label", self.nuisance]}
        columns = dict.fromkeys(one for name in asked or ("group",) for one in meant.get(name, [name]))
        for one in columns:
            if one not in self.cells.codes:
                raise not_found(
                    "column", one, [*self.cells.codes, *meant], f"It was asked of {self.dataset}."
                )
        return list(columns)

    def _lines(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [name, number(one.value), number(one.sem), one.rows, one.of] for name, one in self.figures.items()
        ]
        return ["figure", "value", "sem", "n", "over"], rows


def _defined(value: float | None) -> float:
    return math.nan if value is None else value


def evaluate(
    task: Task,
    predictions: Any,
    name: str | None = None,
    *,
    remap: bool = False,
    outputs: Any = None,
    marginal: Any = None,
) -> Evaluation:
    """What some predictions are worth: see `Task.evaluate`."""
    name = task.set_of("test") if name is None else name
    metadata, rowset = task.metadata, task.sets[name]
    if not len(rowset):
        raise InputError(f"{name} of {task.describe()} has no rows to evaluate")
    rows, predicted = predicted_rows(task, name, predictions, remap=remap, outputs=outputs)
    true = metadata.label[rows].astype(np.int64)
    if true.min() < 0:
        raise InputError(
            f"{name} is an unlabelled set, and these tars have no labels of it: evaluate on the task of the "
            "Parquet dataset, with the same keys"
        )
    known = np.isin(np.arange(len(metadata.labels)), task.label_ids)
    if "universal" in task.metrics:
        true = np.where(known, np.arange(len(known)), UNKNOWN)[true]
    severity = metadata.columns["severity"][rows]
    origin = metadata.origin[rows]
    cells = _cells(task, name, rows, severity, origin, true == predicted)
    nuisance, scaled = metadata.nuisance_column, "severity" in cells.codes
    judged = Judged(
        all=cells.all,
        groups=cells.by(["label", nuisance]),
        classes=cells.by(["label"]),
        domains=cells.by([nuisance]),
        along=cells.by([nuisance, "severity"]) if "continuous" in task.metrics and scaled else None,
        true=true,
        predicted=predicted,
        nuisance=metadata.nuisance[rows],
        nuisances=metadata.nuisances,
        severity=severity,
        origin=origin,
        trajectory=_trajectories(metadata.trajectory, rows) if "continuous" in task.metrics else rows,
        known=task.label_ids,
        expected=np.unique(cells.codes["label"]),
        labels=len(metadata.labels),
        marginal=marginal,
    )
    figures, notes = figures_of(judged, task.metrics)
    if cells.origins < len(rows):
        notes.append(f"{cells.counted}: standard errors are over origins, whose rows are one observation")
    if outputs is not None and (others := np.count_nonzero(predicted == UNKNOWN)):
        notes.append(f"{others:,} predictions are outputs that stand for no label: they count as wrong")
    described = task.describe(), metadata.name, name, rowset.role, len(rows)
    points = judged.failure_points if "failures" in figures else None
    return Evaluation(*described, figures, tuple(notes), nuisance, cells, points)


def _trajectories(trajectory: IntArray, rows: IntArray) -> IntArray:
    """The trajectory of each row; one that was drawn twice is two."""
    order = np.argsort(rows, kind="stable")
    copy = np.empty(len(rows), np.int64)
    copy[order] = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
    numbers: IntArray = trajectory[rows].astype(np.int64) * (1 + copy.max(initial=0)) + copy
    return numbers


def _cells(
    task: Task,
    name: str,
    rows: IntArray,
    severity: np.ndarray[Any, Any],
    origin: IntArray,
    right: np.ndarray[Any, Any],
) -> Cells:
    """Rows and correct rows of each group and severity; a promised group without rows is there too."""
    metadata, expected = task.metadata, task.sets[name].expected
    group = metadata.group[rows]
    if group.min() < 0:
        raise InputError(f"{name} has rows without a group: untouched content has no accuracy by group")
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
    label, nuisance = np.divmod(shown // count, len(metadata.nuisances))
    names = {"label": metadata.labels, metadata.nuisance_column: metadata.nuisances}
    codes = {"label": label, metadata.nuisance_column: nuisance}
    if steps is not None:
        names["severity"], codes["severity"] = tuple(f"{one:g}" for one in steps), shown % count
    place = np.zeros(len(n), np.int64)
    place[shown] = np.arange(len(shown))
    clusters = Clusters.of_rows(place[cell], origin, right.astype(np.float64), len(shown))
    origins = int(np.count_nonzero(np.bincount(origin)))
    return Cells(names, codes, n[shown], correct[shown], origins, clusters)
