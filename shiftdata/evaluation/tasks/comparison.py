"""Several methods on one set: their groups and confusions, which rows each gets wrong, and who is ahead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.differences import holm, paired_test
from shiftdata.evaluation.tasks.evaluation import Evaluation, true_labels
from shiftdata.evaluation.tasks.predictions import predicted_rows
from shiftdata.evaluation.tasks.task import Task

#: Methods that are compared at once at most.
MOST_METHODS = 8
#: The level at which a difference between two methods is called one.
LEVEL = 0.05


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
    def nuisances(self) -> tuple[str, ...]:
        """The names of nuisances; of untouched content a single one."""
        return next(iter(self.results.values())).cells.names[self.task.metadata.nuisance_column]

    @cached_property
    def nuisance(self) -> IntArray:
        nuisance: IntArray = np.maximum(self.task.metadata.nuisance[self.rows].astype(np.int64), 0)
        return nuisance

    @cached_property
    def severity(self) -> FloatArray:
        return self.task.metadata.columns["severity"][self.rows]

    @cached_property
    def group(self) -> IntArray:
        return self.label * len(self.nuisances) + self.nuisance

    def group_name(self, group: int) -> str:
        label, nuisance = divmod(group, len(self.nuisances))
        return f"{self.task.metadata.labels[label]} / {self.nuisances[nuisance]}"

    def right(self, method: str) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.predicted[method] == self.true
        return mask

    @cached_property
    def wrong(self) -> IntArray:
        """The methods that get each row wrong, as bits: 1 is the first method, 2 the second, 4 the third."""
        wrong = np.zeros(len(self.rows), np.int64)
        for at, method in enumerate(self.predicted):
            wrong |= (~self.right(method)).astype(np.int64) << at
        return wrong

    def groups(self, method: str) -> dict[int, list[Any]]:
        """Return of each group with rows: rows, right ones, ends of Wilson's interval, origins."""
        (labels, nuisances), of = self.results[method].cells.sums(["label", self.results[method].nuisance])
        groups = (labels * len(self.nuisances) + nuisances).tolist()
        ends = [[round(end, 4) for end in interval] for interval in of.intervals()]
        rows = zip(groups, of.n.tolist(), of.correct.tolist(), ends, of.origins.tolist(), strict=True)
        return {group: [n, right, *interval, origins] for group, n, right, interval, origins in rows if n}

    @cached_property
    def by_group(self) -> dict[int, dict[str, list[Any]]]:
        """The groups of every method, the one with the lowest accuracy of any method first."""
        groups = {method: self.groups(method) for method in self.predicted}
        every = {group: {method: of[group] for method, of in groups.items()} for group in groups[self.first]}
        return dict(sorted(every.items(), key=lambda item: min(map(worst_first, item[1].values()))))

    @property
    def first(self) -> str:
        return next(iter(self.predicted))

    def confusions(self, most: int) -> list[list[int]]:
        """Count what is taken for what: nuisance, label, taken for (-1: unknown), rows of each method.

        The largest `most`, by the method with the most rows.
        """
        wide, kinds = len(self.task.metadata.labels) + 1, []
        for method, predicted in self.predicted.items():
            wrong = ~self.right(method)
            kinds.append(self.group[wrong] * wide + predicted[wrong] + 1)
        known, place = np.unique(np.concatenate(kinds), return_inverse=True)
        parts = np.split(place, np.cumsum([len(mine) for mine in kinds])[:-1])
        counts = np.stack([np.bincount(part, minlength=len(known)) for part in parts], axis=1)
        largest = np.argsort(-counts.max(axis=1, initial=0), kind="stable")[:most]
        groups, taken = np.divmod(known[largest], wide)
        labels, nuisances = np.divmod(groups, len(self.nuisances))
        found: list[list[int]] = np.column_stack([nuisances, labels, taken - 1, counts[largest]]).tolist()
        return found

    def along(self) -> dict[str, list[list[float | None]]]:
        """Return the accuracy of each method at each severity, by nuisance; empty at a single one."""
        if len(self.steps) < 2:
            return {}
        curves: dict[str, list[list[float | None]]] = {}
        for place, result in enumerate(self.results.values()):
            (nuisances, steps), of = result.cells.sums([result.nuisance, "severity"])
            for nuisance, step, accuracy in zip(nuisances, steps, of.accuracy.tolist(), strict=True):
                empty: list[list[float | None]] = [[None] * len(self.steps) for _ in self.results]
                curve = curves.setdefault(self.nuisances[nuisance], empty)
                curve[place][step] = None if math.isnan(accuracy) else round(accuracy, 4)
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

    @cached_property
    def pairs(self) -> list[dict[str, Any]]:
        """Every two methods: rows that both get right, only the first, only the second, none; a paired test.

        `origins` are those on which they differ, None where each has a single row; `p` is after Holm's
        correction for all pairs.
        """
        origin = self.task.metadata.origin[self.rows].astype(np.int64)
        several = bool(np.bincount(origin).max() > 1)
        pairs: list[dict[str, Any]] = []
        for first, second in combinations(self.predicted, 2):
            gained = self.right(first).astype(np.int64) - self.right(second)
            outcome = 3 - 2 * self.right(first).astype(np.int64) - self.right(second)
            by_origin = np.bincount(origin, gained).astype(np.int64)
            pairs.append(
                {
                    "first": first,
                    "second": second,
                    "counts": np.bincount(outcome, minlength=4).tolist(),
                    "p": paired_test(by_origin),
                    "origins": int(np.count_nonzero(by_origin)) if several else None,
                }
            )
        adjusted = holm([pair["p"] for pair in pairs])
        return [pair | {"p": p} for pair, p in zip(pairs, adjusted, strict=True)]

    @cached_property
    def leader(self) -> str:
        """The method with the most right rows."""
        return max(self.predicted, key=lambda method: int(self.right(method).sum()))

    def behind(self, method: str) -> tuple[float, float]:
        """Return how many points a method is behind the leader, and the p-value of `pairs`."""
        pair = next(pair for pair in self.pairs if {pair["first"], pair["second"]} == {self.leader, method})
        return 100 * abs(pair["counts"][1] - pair["counts"][2]) / len(self.rows), pair["p"]

    def verdict(self) -> str:
        """Say of which methods the leader is ahead, and of which no difference is shown."""
        ahead, open_ = list[str](), list[str]()
        for method in self.predicted:
            if method != self.leader:
                points, p = self.behind(method)
                (ahead if p < LEVEL else open_).append(f"{method} ({points:.1f} points, {p_value(p)})")
        clauses = [f"it is ahead of {listed(ahead)}"] if ahead else []
        clauses += [f"no difference is shown from {listed(open_)}"] if open_ else []
        test = f"By a paired test on the same rows, {'; '.join(clauses)}."
        return f"{self.leader} has the most rows right. {test}" if clauses else ""

    def worst(self) -> list[dict[str, Any]]:
        """Return each method's accuracy and its worst group: of several the one with the most rows."""
        lines = []
        for method in self.predicted:
            group, of = min(self.by_group.items(), key=lambda item: worst_first(item[1][method]))
            n, right, low, high, origins = of[method]
            line = {"method": method, "overall": float(self.results[method].overall), "group": group}
            line |= {"name": self.group_name(group), "accuracy": right / n, "low": low, "high": high, "n": n}
            lines.append(line | {"origins": origins})
        return lines

    def examples(self, right: int) -> dict[int, IntArray]:
        """Return the places of each group's examples: all that any method gets wrong, and `right` others.

        Those that the most methods get wrong come first, and rows that the same methods get wrong together.
        A row that was drawn twice comes once.
        """
        _, distinct = np.unique(self.rows, return_index=True)
        wrong = self.wrong[distinct]
        order = distinct[np.lexsort((wrong, -np.bitwise_count(wrong).astype(np.int64), self.group[distinct]))]
        chosen = {}
        for mine in np.split(order, np.flatnonzero(np.diff(self.group[order])) + 1):
            shown = int(np.count_nonzero(self.wrong[mine])) + right
            chosen[int(self.group[mine[0]])] = mine[:shown]
        return chosen

    def patterns(self) -> dict[int, dict[int, int]]:
        """Count the rows of each group by the methods that get them wrong: bits as in `wrong`."""
        kinds, counts = np.unique(np.stack([self.group, self.wrong]), axis=1, return_counts=True)
        patterns: dict[int, dict[int, int]] = {}
        for group, wrong, rows in zip(*kinds.tolist(), counts.tolist(), strict=True):
            patterns.setdefault(group, {})[wrong] = rows
        return patterns

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: what a page shows of all methods at once."""
        return {
            "labels": [*self.task.metadata.labels, "unknown"],
            "nuisances": list(self.nuisances),
            "nuisance": self.task.metadata.nuisance_column,
            "methods": list(self.predicted),
            "groups": [
                [
                    *divmod(group, len(self.nuisances)),
                    of[self.first][0],
                    *(right for _, right, *_ in of.values()),
                ]
                for group, of in self.by_group.items()
            ],
            "steps": self.steps if len(self.steps) > 1 else [],
            "along": self.along(),
        }


def worst_first(group: list[Any]) -> tuple[float, int]:
    """Order groups of `Comparison.groups` by accuracy; of equal ones the larger is first."""
    n, right, *_ = group
    return right / n, -n


def listed(names: Sequence[str]) -> str:
    """Join names by commas, the last one by "and"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def p_value(p: float) -> str:
    """Write a p-value so that no line breaks in it."""
    return "p\xa0<\xa00.0001" if p < 0.0001 else f"p\xa0=\xa0{p:.2g}"
