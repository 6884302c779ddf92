"""A page of predictions as files: the accuracy of each group, confusions, and the pictures behind them."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.differences import paired_test
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.pages.shell import data_script, render, write_assets
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.evaluation import Evaluation
from shiftdata.evaluation.tasks.predictions import predicted_rows
from shiftdata.files import write_text
from shiftdata.serve.pages.pages import COLUMNS, wall
from shiftdata.serve.pages.rows import Indices, Rows

Mask: TypeAlias = NDArray[np.bool_]
#: Methods on one page at most.
MOST_METHODS = 8
#: Examples of each group that are shown first: those that a method gets wrong, and right.
FIRST = {"wrong": 8, "right": 4}
#: Examples of each further part of a group, which a page loads when it is asked for more.
PART = 60
#: The name of a label that no model is trained for.
UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class Compared:
    """The predictions of some methods for the rows of one set, in the same order."""

    task: Task
    set: str
    rows: Indices
    predicted: Mapping[str, Indices]
    results: Mapping[str, Evaluation]

    @classmethod
    def of(
        cls, task: Task, predictions: Mapping[str, Any], name: str | None = None, *, remap: bool = False
    ) -> Compared:
        """Judge predictions in any form that `task.evaluate` takes; all of the same set."""
        if not 1 <= len(predictions) <= MOST_METHODS:
            raise InputError(f"{len(predictions)} methods: a page compares 1 to {MOST_METHODS}")
        name = task.set_of("test") if name is None else name
        results = {method: task.evaluate(given, name, remap=remap) for method, given in predictions.items()}
        rows, predicted = np.empty(0, np.int64), {}
        for method, given in predictions.items():
            at, labels = predicted_rows(task, name, given, remap=remap)
            order = np.argsort(at, kind="stable")
            rows, predicted[method] = at[order], labels[order]
        return cls(task, name, rows, predicted, results)

    @cached_property
    def label(self) -> Indices:
        return self.task.metadata.label[self.rows].astype(np.int64)

    @cached_property
    def true(self) -> Indices:
        """The right prediction: in universal adaptation, unknown for labels outside of training."""
        if "universal" not in self.task.history.metrics:
            return self.label
        return np.where(np.isin(self.label, self.task.label_ids), self.label, -1)

    @cached_property
    def nuisance(self) -> Indices:
        return self.task.metadata.nuisance[self.rows].astype(np.int64)

    @cached_property
    def severity(self) -> NDArray[np.float64]:
        return self.task.metadata.columns["severity"][self.rows]

    @cached_property
    def group(self) -> Indices:
        return self.label * len(self.task.metadata.nuisances) + self.nuisance

    def right(self, method: str) -> Mask:
        mask: Mask = self.predicted[method] == self.true
        return mask

    def confusions(self, method: str) -> list[list[int]]:
        """Count how often each group is taken for each label: nuisance, label, taken for (-1: unknown), rows.

        What is right counts as its own label, also where it only has to be called unknown.
        """
        taken = np.where(self.right(method), self.label, self.predicted[method])
        kinds, counts = np.unique(np.stack([self.nuisance, self.label, taken]), axis=1, return_counts=True)
        return [*map(list, np.vstack([kinds, counts]).T.tolist())]

    def groups(self, method: str) -> list[list[Any]]:
        """Each group with rows: label, nuisance, rows, right ones, ends of Wilson's interval, origins."""
        codes, of = self.results[method].cells.sums(["label", self.results[method].nuisance])
        ends = [[round(end, 4) for end in interval] for interval in of.intervals()]
        columns = [column.tolist() for column in (*codes, of.n, of.correct)]
        rows = zip(*columns, ends, of.origins.tolist(), strict=True)
        return [[*row, *interval, origins] for *row, interval, origins in rows if row[2]]

    def along(self, method: str) -> dict[str, list[float | None]]:
        """Return the accuracy of each nuisance at each severity; empty where there is one severity."""
        result, names = self.results[method], self.task.metadata.nuisances
        if len(self.steps) < 2:
            return {}
        (nuisances, steps), of = result.cells.sums([result.nuisance, "severity"])
        curves: dict[str, list[float | None]] = {names[at]: [None] * len(self.steps) for at in nuisances}
        for nuisance, step, accuracy in zip(nuisances, steps, of.accuracy.tolist(), strict=True):
            curves[names[nuisance]][step] = None if math.isnan(accuracy) else round(accuracy, 4)
        return curves

    @property
    def steps(self) -> list[float]:
        return [float(step) for step in np.unique(self.severity[~np.isnan(self.severity)])]

    def failures(self, method: str) -> dict[str, list[int]]:
        """Count trajectories of each nuisance that fail first at each severity; last, those that never do."""
        points = self.results[method].failure_points
        if points is None:
            return {}
        counts = {}
        for at, shift in enumerate(points.shifts):
            mine = points.point[points.shift == at]
            name = self.task.metadata.nuisances[shift] if isinstance(shift, int) else str(shift)
            failed = [int((mine == step).sum()) for step in points.severities]
            counts[name] = [*failed, int(np.isnan(mine).sum())]
        return counts

    def pairs(self) -> Iterator[dict[str, Any]]:
        """Compare every two methods: rows that both get right, only the first, only the second, none."""
        origin = self.task.metadata.origin[self.rows].astype(np.int64)
        groups, place = np.unique(self.group, return_inverse=True)
        names = divmod(groups, len(self.task.metadata.nuisances))
        for first, second in combinations(self.predicted, 2):
            gained = self.right(first).astype(np.int64) - self.right(second)
            outcome = 3 - 2 * self.right(first).astype(np.int64) - self.right(second)
            by_group = np.bincount(place * 4 + outcome, minlength=4 * len(groups)).reshape(-1, 4)
            by_origin = np.bincount(origin, gained).astype(np.int64)
            several = bool(np.bincount(origin).max() > 1)  # an origin with several rows
            yield {
                "first": first,
                "second": second,
                "counts": np.bincount(outcome, minlength=4).tolist(),
                "p": paired_test(by_origin),
                "origins": int(np.count_nonzero(by_origin)) if several else None,
                "groups": np.column_stack([*names, by_group]).tolist(),
            }

    def shown(self) -> dict[int, list[Indices]]:
        """Return the rows of each group that are shown, in parts.

        The first part has the first rows that each method gets wrong, and right; the others have the rest of
        those that any method gets wrong. A row that was drawn twice is shown once.
        """
        _, distinct = np.unique(self.rows, return_index=True)
        order = distinct[np.argsort(self.group[distinct], kind="stable")]
        ends = np.flatnonzero(np.diff(self.group[order])) + 1
        right = [self.right(method) for method in self.predicted]
        return {int(self.group[mine[0]]): self._parts(mine, right) for mine in np.split(order, ends)}

    @staticmethod
    def _parts(mine: Indices, right: list[Mask]) -> list[Indices]:
        wrong_ones = [mine[~mask[mine]][: FIRST["wrong"]] for mask in right]
        right_ones = [mine[mask[mine]][: FIRST["right"]] for mask in right]
        first = np.unique(np.concatenate(wrong_ones + right_ones))
        rest = np.setdiff1d(mine[~np.all([mask[mine] for mask in right], axis=0)], first)
        return [first, *(rest[at : at + PART] for at in range(0, len(rest), PART))]

    def worst_line(self, method: str) -> str:
        """Name the group with the lowest accuracy, of several the one with most rows, in a sentence."""
        label, nuisance, n, correct, low, high, origins = min(
            self.groups(method), key=lambda group: (group[3] / group[2], -group[2])
        )
        name = self.task.metadata.group_name(label * len(self.task.metadata.nuisances) + nuisance)
        share = f"{100 * correct / n:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
        counted = f"{n:,} of {origins:,} origins" if origins < n else f"{n:,}"
        return f"Worst group of {method}: {name}, {share}, n = {counted}"


def predictions_page(
    task: Task,
    predictions: Mapping[str, Any],
    out: Path,
    name: str | None = None,
    *,
    remap: bool = False,
    begin: Callable[[str, int], Callable[[], object]] = lambda name, steps: lambda: None,
) -> Path:
    """Write pages on the predictions of some methods for a set of a task, and return the front one.

    `predictions` are by method, in any form that `task.evaluate` takes (`remap` as there); `name` is the set,
    by default the first that tests. `begin` gets the page's name and its steps, and returns the call of each.
    """
    compared = Compared.of(task, predictions, name, remap=remap)
    shown = compared.shown()
    step = begin(f"{compared.set}, {len(predictions)} methods", sum(map(len, shown.values())))
    write_assets(out)
    for folder in ("data/groups", "data/shown"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)
    dataset = task.metadata.dataset  # None for a table of one's own, which has no examples
    rows = None if dataset is None else Rows.of(dataset, task.metadata.base)
    for group, parts in shown.items():
        for part, places in enumerate(parts):
            _write_part(compared, rows, f"{group}-{part}", places, out)
            step()
    title, first = " and ".join(predictions), next(iter(compared.results.values()))
    text = render(
        "predictions.html",
        root="",
        page=_page_data(compared, rows) | {"parts": {group: len(parts) for group, parts in shown.items()}},
        title=title,
        about=f"{first.dataset}, {first.task}; {first.set}: {first.cells.counted}",
        notes=first.notes,
        figures=_figures(compared),
    )
    write_text(out / "index.html", text)
    return out / "index.html"


def _page_data(compared: Compared, rows: Rows | None) -> dict[str, Any]:
    metadata = compared.task.metadata
    return {
        "here": "",
        "pictures": rows is not None and rows.has_pictures,
        "labels": [*metadata.labels, UNKNOWN],
        "nuisances": list(metadata.nuisances),
        "nuisance": metadata.nuisance_column,
        "methods": [
            {
                "name": method,
                "worst": compared.worst_line(method),
                "groups": compared.groups(method),
                "confusions": compared.confusions(method),
                "along": compared.along(method),
                "failures": compared.failures(method),
            }
            for method in compared.predicted
        ],
        "steps": compared.steps if len(compared.steps) > 1 else [],
        "pairs": list(compared.pairs()),
        "columns": COLUMNS,
        "first": FIRST,
        "more": PART,
    }


def _write_part(compared: Compared, rows: Rows | None, name: str, places: Indices, out: Path) -> None:
    """Write examples of a group, each with its predictions, and their pictures."""
    at = compared.rows[places]  # in order: the places are, and so are the rows
    times = np.searchsorted(compared.rows, at, "right") - np.searchsorted(compared.rows, at)
    keys = compared.task.metadata.keys(at).to_pylist()
    texts: list[Any] = [None] * len(at)
    if rows is not None and rows.has_pictures:
        (out / f"data/groups/{name}.webp").write_bytes(wall(rows, at))
    elif rows is not None and rows.dataset.manifest.pixels_included:
        texts = rows.texts(at)
    predicted = np.stack([labels[places] for labels in compared.predicted.values()], axis=1)
    right = predicted == compared.true[places][:, None]
    columns = {
        "key": keys,
        "predicted": predicted.tolist(),
        "right": right.tolist(),
        "severity": [None if np.isnan(step) else float(step) for step in compared.severity[places]],
        "times": times.tolist(),
        "text": texts,
    }
    examples = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    script = data_script(f"shown/{name}", {"examples": examples})
    (out / f"data/shown/{name}.js").write_text(script, encoding="utf-8")


def _figures(compared: Compared) -> list[dict[str, Any]]:
    """Return the official figures, a line each, with one cell a method."""

    def cell(figure: Any) -> str:
        error = f" ± {number(figure.sem)}" if np.isfinite(figure.sem) else ""
        return f"{number(figure.value)}{error}"

    results = list(compared.results.values())
    return [
        {
            "name": name.replace("_", " "),
            "rows": figure.rows,
            "of": figure.of,
            "cells": [cell(result.figures[name]) for result in results],
        }
        for name, figure in results[0].figures.items()
    ]
