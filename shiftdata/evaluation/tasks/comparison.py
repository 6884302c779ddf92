"""Several methods on one set: their confusions, their groups, and how each two differ, example by example."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.differences import paired_test
from shiftdata.evaluation.tasks.evaluation import Evaluation, true_labels
from shiftdata.evaluation.tasks.predictions import predicted_rows
from shiftdata.evaluation.tasks.task import Task

#: Methods that are compared at once at most.
MOST_METHODS = 8


@dataclass(frozen=True, eq=False)
class Comparison:
    """The predictions of some methods for the rows of one set, in the same order."""

    task: Task
    set: str
    rows: IntArray
    predicted: Mapping[str, IntArray]
    results: Mapping[str, Evaluation]

    @classmethod
    def of(
        cls, task: Task, predictions: Mapping[str, Any], name: str | None = None, *, remap: bool = False
    ) -> Comparison:
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
    def label(self) -> IntArray:
        return self.task.metadata.label[self.rows].astype(np.int64)

    @cached_property
    def true(self) -> IntArray:
        return true_labels(self.task, self.rows)

    @cached_property
    def nuisance(self) -> IntArray:
        return self.task.metadata.nuisance[self.rows].astype(np.int64)

    @cached_property
    def severity(self) -> FloatArray:
        return self.task.metadata.columns["severity"][self.rows]

    @cached_property
    def group(self) -> IntArray:
        return self.label * len(self.task.metadata.nuisances) + self.nuisance

    def right(self, method: str) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.predicted[method] == self.true
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

    def shown(self, wrong: int, right: int, part: int) -> dict[int, list[IntArray]]:
        """Return the places of each group's examples, in parts: those that methods get wrong, and some right.

        The first part has the first rows that each method gets wrong, and right, at most as many of each as
        given; the others have the rest of those that any method gets wrong. A row that was drawn twice comes
        once.
        """
        _, distinct = np.unique(self.rows, return_index=True)
        order = distinct[np.argsort(self.group[distinct], kind="stable")]
        masks = [self.right(method) for method in self.predicted]
        parts = {}
        for mine in np.split(order, np.flatnonzero(np.diff(self.group[order])) + 1):
            is_right = [mask[mine] for mask in masks]
            chosen = [mine[~mask][:wrong] for mask in is_right] + [mine[mask][:right] for mask in is_right]
            first = np.unique(np.concatenate(chosen))
            rest = np.setdiff1d(mine[~np.all(is_right, axis=0)], first)
            further = (rest[at : at + part] for at in range(0, len(rest), part))
            parts[int(self.group[mine[0]])] = [first, *further]
        return parts

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: what a page shows of each method and of each two."""
        metadata = self.task.metadata
        return {
            "labels": [*metadata.labels, "unknown"],
            "nuisances": list(metadata.nuisances),
            "nuisance": metadata.nuisance_column,
            "methods": [
                {
                    "name": method,
                    "worst": self.worst_line(method),
                    "groups": self.groups(method),
                    "confusions": self.confusions(method),
                    "along": self.along(method),
                    "failures": self.failures(method),
                }
                for method in self.predicted
            ],
            "steps": self.steps if len(self.steps) > 1 else [],
            "pairs": list(self.pairs()),
        }

    def worst_line(self, method: str) -> str:
        """Name the group with the lowest accuracy, of several the one with most rows, in a sentence."""
        label, nuisance, n, correct, low, high, origins = min(
            self.groups(method), key=lambda group: (group[3] / group[2], -group[2])
        )
        name = self.task.metadata.group_name(label * len(self.task.metadata.nuisances) + nuisance)
        share = f"{100 * correct / n:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
        counted = f"{n:,} of {origins:,} origins" if origins < n else f"{n:,}"
        return f"Worst group of {method}: {name}, {share}, n = {counted}"
