"""Evaluate predictions on a set of a task: official figures, and the accuracy by columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shiftdata.data.arrays import IntArray, counted
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.metrics import FailurePoints, GroupAccuracy
from shiftdata.evaluation.metrics.records import Record, number, plain
from shiftdata.evaluation.tasks.cells import Cells, cells_of
from shiftdata.evaluation.tasks.official import Figure, Judged, accuracy_of, figures_of
from shiftdata.evaluation.tasks.predictions import UNKNOWN, predicted_rows
from shiftdata.evaluation.tasks.rows import TaskRows, row_set
from shiftdata.evaluation.tasks.sets import OneClassWarning, Role
from shiftdata.notebook import box, line, shown, table
from shiftdata.tables import aligned, markdown

if TYPE_CHECKING:
    from PIL import Image


#: The share of predictions of one class from which on an evaluation warns.
ONE_CLASS = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Record):
    """The figures of one set of a task.

    `figures` are the task's official metrics by name, also as `result["worst"]` or `result.h_score`: floats
    that carry their rows `n` and their standard error `sem` over the `origins` of these. `mean` and `worst`
    are over groups (label and nuisance); `overall`, also named `accuracy`, is the share of rows that are
    right, whatever the task. `failure_points` are there for continuous shifts whose trajectories are
    complete; JSON does not keep them.
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
            raise not_found("figure", name, {*self.figures, "accuracy"}, f"The task is {self.task}.")
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

    overall = accuracy

    @cached_property
    def groups(self) -> GroupAccuracy:
        """The accuracy of each group, by name, with its number of rows."""
        return self.by("group")

    @property
    def mean(self) -> float:
        """The mean over groups."""
        return self.groups.mean

    @property
    def worst(self) -> float:
        """The accuracy of the worst group; `groups.worst_group` is its name."""
        return self.groups.worst

    def by(self, *columns: str) -> GroupAccuracy:
        """Return the accuracy by "label", "nuisance" (or its name), "severity", "group", or several."""
        return self.cells.by(self._columns(columns))

    def to_markdown(self, *by: str) -> str:
        """Return the figures as Markdown, or with `by` the accuracy by these columns."""
        return self.by(*by).to_markdown() if by else markdown(*self._lines())

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: the figures, and rows and correct rows of each cell by name."""
        cells = {column: self.cells.named(column, codes) for column, codes in self.cells.codes.items()}
        counts = {"n": self.cells.n, "correct": self.cells.correct, "origins": self.cells.origins}
        return super().to_dict() | {"cells": plain(cells | counts)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Evaluation:
        """Read what `to_dict` stored."""
        cells = stored["cells"]
        n, correct = (np.asarray(cells[name], np.int64) for name in ("n", "correct"))
        columns = {name: cells[name] for name in ("label", stored["nuisance"], "severity") if name in cells}
        names = {column: tuple(dict.fromkeys(values)) for column, values in columns.items()}
        if "severity" in names:
            names["severity"] = tuple(sorted(names["severity"], key=float))
        codes = {
            column: np.array([names[column].index(value) for value in values], np.int64)
            for column, values in columns.items()
        }
        figures = {name: Figure.from_dict(figure) for name, figure in stored["figures"].items()}
        read = Cells(names, codes, n, correct, cells.get("origins", 0))
        return cls(**{**stored, "figures": figures, "notes": tuple(stored["notes"]), "cells": read})

    def __str__(self) -> str:
        head = f"{self.task}\nof {self.dataset}, {self.set} ({self.role}): {self.n:,} rows\n"
        return "\n".join([head, aligned(*self._lines()), *self.notes])

    __repr__ = __str__

    @shown
    def _repr_html_(self) -> str:
        from shiftdata.evaluation.charts import panel_html
        from shiftdata.evaluation.tasks.charts import panel_of_cells

        parts = [table("Figures", *self._lines())]
        with suppress(InputError):  # of more groups than can be read
            squares = panel_html(panel_of_cells(self.cells, ["label", self.nuisance], self.set))
            truly = " to ".join(number(end, 2) for end in self.groups.worst_interval())
            worst = f"worst group: {self.groups.worst_group}, {number(self.worst, 2)} (95 %: {truly})"
            parts += [line(worst), squares]
        head = f"{self.task}, {self.dataset}, {self.set} ({self.role}): {self.n:,} rows"
        return box(head, *parts, *map(line, self.notes))

    def picture(self, *by: str) -> Image.Image:
        """Draw two columns as a heat map, one as bars with standard errors, and severities as lines.

        By default the official metrics choose the columns.
        """
        from shiftdata.evaluation.tasks.charts import draw_cells

        usual = ("label", "nuisance")
        if "mean_failure_point" in self.figures:
            usual = ("nuisance", "severity")
        columns = self._columns(by or (("nuisance",) if "mean_domain" in self.figures else usual))
        title = f"{self.task}\nof {self.dataset}, {self.set}: {self.cells.counted}"
        return draw_cells(self.cells, columns, title, self.set)

    def _columns(self, by: Sequence[str]) -> list[str]:
        aliases = {"nuisance": [self.nuisance], "group": ["label", self.nuisance]}
        columns = dict.fromkeys(column for name in by or ("group",) for column in aliases.get(name, [name]))
        for column in columns:
            if column not in self.cells.codes:
                raise not_found("column", column, [*self.cells.codes, *aliases], f"Dataset: {self.dataset}.")
        return list(columns)

    def _lines(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [name, number(figure.value), number(figure.sem), figure.rows, figure.of]
            for name, figure in self.figures.items()
        ]
        return ["figure", "value", "sem", "n", "over"], rows


def one_class(task: TaskRows, name: str, predicted: IntArray, true: IntArray) -> str:
    """Say that nine tenths of the predictions are of one class, a tenth more than of the rows; else ""."""
    counts = counted(predicted, len(task.metadata.labels))
    counts = np.append(counts, len(predicted) - counts.sum())  # the last is of `UNKNOWN`, which is -1
    most = UNKNOWN if counts[UNKNOWN] == counts.max() else int(counts.argmax())
    same = int(np.count_nonzero(true == most))
    if counts[most] < max(ONE_CLASS * len(true), same + (1 - ONE_CLASS) * len(true)):
        return ""
    label = "unknown" if most == UNKNOWN else task.metadata.labels[most]
    return (
        f"{counts[most]:,} of {len(predicted):,} rows of {name} are predicted as {label}; {same:,} are. "
        "The network may have collapsed there: compare other backbones, rates and normalisation"
    )


def true_labels(task: TaskRows, rows: IntArray) -> IntArray:
    """Return the right prediction of each row: in universal adaptation, unknown outside of training."""
    labels = task.metadata.label[rows].astype(np.int64)
    if "universal" not in task.history.metrics:
        return labels
    return np.where(np.isin(labels, task.label_ids), labels, UNKNOWN)


def evaluate(
    task: TaskRows,
    predictions: Any,
    name: str | None = None,
    *,
    remap: bool = False,
    outputs: Any = None,
) -> Evaluation:
    """Evaluate predictions on a set by the official metrics of the task's protocols, each with its n.

    A row that was drawn twice counts twice.

    Args:
        predictions: a mapping by key, a table with the columns key and prediction, a file of one (.csv,
            .parquet, .npy), or an array, list, tensor or Series in the order of `rows`; each a label's
            number or name, or a row of logits: one a label of the dataset or of the task.
        name: the set; default: the first with the role "test".
        remap: numbers are those of `remapped`, 0 to k - 1 (and k for unknown).
        outputs: for a model with other outputs than the dataset's labels, the number of the label of each
            output, -1 for none; see `imagenet_outputs`.

    """
    name = task.set_of("test") if name is None else name
    metadata, rowset, metrics = task.metadata, row_set(task, name), task.history.metrics
    if not len(rowset):
        raise InputError(f"{name} of {task.describe()} has no rows to evaluate")
    rows, predicted = predicted_rows(task, name, predictions, remap=remap, outputs=outputs)
    true = true_labels(task, rows)
    if metadata.label[rows].min() < 0:
        raise InputError(
            f"the publisher of {metadata.name} keeps the labels of {name}: `shiftdata submit` writes the "
            "file by which predictions are judged"
            if "label" in metadata.hidden
            else f"{name} is an unlabelled set, and these tars have no labels of it: evaluate on the task of "
            "the Parquet dataset, with the same keys"
        )
    cells = cells_of(task, name, rows, true == predicted)
    judged = Judged(metadata, rows, cells, true, predicted, task.label_ids)
    figures, notes = figures_of(judged, metrics)
    if cells.origins < len(rows):
        notes.append(f"{cells.counted}: standard errors are over origins, whose rows are one observation")
    if "universal" not in metrics and (others := np.count_nonzero(predicted == UNKNOWN)):
        notes.append(f"{others:,} predictions are outputs without a label: they count as wrong")
    if collapse := one_class(task, name, predicted, true):
        notes.append(collapse)
        warnings.warn(collapse, OneClassWarning, stacklevel=2)
    described = task.describe(), metadata.name, name, rowset.role, len(rows)
    points = judged.failure_points if "failures" in figures else None
    return Evaluation(*described, figures, tuple(notes), metadata.nuisance_column, cells, points)
