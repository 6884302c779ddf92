"""Predictions over a set of a task, counted for a page: by group, by confusion, by two methods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.paired import paired_test
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.evaluation import Evaluation
from shiftdata.evaluation.tasks.predictions import predicted_rows
from shiftdata.serve.pages.rows import Indices

#: Methods on one page at most.
MOST_METHODS = 8
#: Examples of each group that are shown first: those that a method gets wrong, and right.
FIRST = {"wrong": 8, "right": 4}
#: Examples of each further part of a group, which a page loads when it is asked for more.
PART = 60
#: What stands for a label that no model is trained for.
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
        results = {one: task.evaluate(given, name, remap=remap) for one, given in predictions.items()}
        read = {one: predicted_rows(task, name, given, remap=remap) for one, given in predictions.items()}
        rows = next(iter(read.values()))[0]
        order = np.argsort(rows, kind="stable")
        predicted = {}
        for one, (mine, labels) in read.items():
            predicted[one] = labels[np.argsort(mine, kind="stable")]
        return cls(task, name, rows[order], predicted, results)

    @cached_property
    def label(self) -> Indices:
        return self.task.metadata.label[self.rows].astype(np.int64)

    @cached_property
    def true(self) -> Indices:
        """What a prediction has to be: in universal adaptation, unknown for labels outside of training."""
        if "universal" not in self.task.history.metrics:
            return self.label
        return np.where(np.isin(self.label, self.task.label_ids), self.label, -1)

    @cached_property
    def nuisance(self) -> Indices:
        return self.task.metadata.nuisance[self.rows].astype(np.int64)

    @cached_property
    def severity(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        return self.task.metadata.columns["severity"][self.rows]

    @cached_property
    def origin(self) -> Indices:
        return self.task.metadata.origin[self.rows].astype(np.int64)

    @cached_property
    def clustered(self) -> bool:
        """Whether an origin has several rows."""
        return bool(np.bincount(self.origin).max() > 1)

    @cached_property
    def group(self) -> Indices:
        return self.label * len(self.task.metadata.nuisances) + self.nuisance

    def right(self, method: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        right: np.ndarray[Any, np.dtype[np.bool_]] = self.predicted[method] == self.true
        return right

    def confusions(self, method: str) -> list[list[int]]:
        """How often each group is taken for each label: nuisance, label, taken for (-1: unknown), rows.

        What is right counts as its own label, also where it only has to be called unknown.
        """
        taken = np.where(self.right(method), self.label, self.predicted[method])
        parts = np.stack([self.nuisance, self.label, taken])
        kinds, counts = np.unique(parts, axis=1, return_counts=True)
        return [*map(list, np.vstack([kinds, counts]).T.tolist())]

    def groups(self, method: str) -> list[list[Any]]:
        """Each group with rows: label, nuisance, rows, right ones, ends of Wilson's interval, origins."""
        codes, of = self.results[method].cells.sums(["label", self.results[method].nuisance])
        rows = zip(*(one.tolist() for one in (*codes, of.n, of.correct)), strict=True)
        ends = [[round(end, 4) for end in interval] for interval in of.intervals()]
        every = zip(rows, ends, of.origins.tolist(), strict=True)
        return [[*one, *interval, origins] for one, interval, origins in every if one[2]]

    def along(self, method: str) -> dict[str, list[float | None]]:
        """The accuracy of each nuisance at each severity; empty where there is one severity."""
        result = self.results[method]
        if len(self.steps) < 2:
            return {}
        (nuisances, steps), of = result.cells.sums([result.nuisance, "severity"])
        names = self.task.metadata.nuisances
        made: dict[str, list[float | None]] = {names[one]: [None] * len(self.steps) for one in nuisances}
        for nuisance, step, accuracy in zip(nuisances, steps, of.accuracy.tolist(), strict=True):
            made[names[nuisance]][step] = None if math.isnan(accuracy) else round(accuracy, 4)
        return made

    @property
    def steps(self) -> list[float]:
        return [float(step) for step in np.unique(self.severity[~np.isnan(self.severity)])]

    def failures(self, method: str) -> dict[str, list[int]]:
        """How many trajectories of each nuisance fail first at each severity, and last how many never do."""
        points = self.results[method].failure_points
        if points is None:
            return {}
        made = {}
        for number, shift in enumerate(points.shifts):
            mine = points.point[points.shift == number]
            counts = [int((mine == step).sum()) for step in points.severities]
            name = self.task.metadata.nuisances[shift] if isinstance(shift, int) else str(shift)
            made[name] = [*counts, int(np.isnan(mine).sum())]
        return made

    def pairs(self) -> Iterator[dict[str, Any]]:
        """Two methods, example by example: both right, only the first, only the second, both wrong."""
        for first, second in combinations(self.predicted, 2):
            one, two = self.right(first), self.right(second)
            outcome = 3 - 2 * one.astype(np.int64) - two
            groups = np.unique(self.group)
            by_group = np.bincount(
                np.searchsorted(groups, self.group) * 4 + outcome, minlength=4 * len(groups)
            )
            counts = np.bincount(outcome, minlength=4).tolist()
            by_origin = np.bincount(self.origin, one.astype(np.int64) - two).astype(np.int64)
            places = divmod(groups, len(self.task.metadata.nuisances))
            yield {
                "first": first,
                "second": second,
                "counts": counts,
                "p": paired_test(by_origin),
                "origins": int(np.count_nonzero(by_origin)) if self.clustered else None,
                "groups": np.column_stack([*places, by_group.reshape(-1, 4)]).tolist(),
            }

    def shown(self) -> dict[int, list[Indices]]:
        """Return which rows of each group are shown, in parts.

        The first part has the first rows that each method gets wrong, and right; the others have all that are
        left of those that any method gets wrong. A row that was drawn twice is shown once.
        """
        _, distinct = np.unique(self.rows, return_index=True)
        order = distinct[np.argsort(self.group[distinct], kind="stable")]
        ends = np.flatnonzero(np.diff(self.group[order])) + 1
        right = {method: self.right(method) for method in self.predicted}
        return {int(self.group[mine[0]]): self._parts(mine, right) for mine in np.split(order, ends)}

    @staticmethod
    def _parts(mine: Indices, right: Mapping[str, np.ndarray[Any, np.dtype[np.bool_]]]) -> list[Indices]:
        wrong_ones = [mine[~of[mine]][: FIRST["wrong"]] for of in right.values()]
        right_ones = [mine[of[mine]][: FIRST["right"]] for of in right.values()]
        first = np.unique(np.concatenate(wrong_ones + right_ones))
        wrong = mine[~np.all([of[mine] for of in right.values()], axis=0)]
        rest = np.setdiff1d(wrong, first)
        return [first, *(rest[at : at + PART] for at in range(0, len(rest), PART))]


def worst_line(compared: Compared, method: str) -> str:
    """The worst group of a method in a sentence.

    It is the group with the lowest accuracy; of several the one with most rows.
    """
    label, nuisance, n, correct, low, high, origins = min(
        compared.groups(method), key=lambda one: (one[3] / one[2], -one[2])
    )
    name = compared.task.metadata.group_name(label * len(compared.task.metadata.nuisances) + nuisance)
    share = f"{100 * correct / n:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
    counted = f"{n:,} of {origins:,} origins" if origins < n else f"{n:,}"
    return f"Worst group of {method}: {name}, {share}, n = {counted}"
