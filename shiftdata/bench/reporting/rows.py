"""What only predictions can say: comparisons on the same rows, and where trajectories fail first.

Records keep the predictions of chosen models, not the truth: that is in the metadata of the dataset, which is
looked for on this machine. No picture is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shiftdata.bench.records import Records, Study
from shiftdata.bench.reporting.facts import Facts
from shiftdata.bench.reporting.kinds import clean
from shiftdata.bench.reporting.scores import Score
from shiftdata.bench.reporting.tables import (
    OVER_SEEDS,
    Group,
    Section,
    Table,
    laid_out,
    plain_table,
    table_of,
)
from shiftdata.bench.selection import rule_of
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.metadata import Metadata, read_metadata
from shiftdata.metrics import PairedComparison, compare
from shiftdata.metrics.arrays import FloatArray, IntArray
from shiftdata.places.search import find
from shiftdata.places.store import Folder
from shiftdata.protocols import parse_protocol
from shiftdata.protocols import task as task_of
from shiftdata.tasks import Task

#: Tasks whose rows are compared in each group of studies; more would fill pages.
MOST_TASKS = 12
INTERVAL = "95 % interval"
HEADER = ("method", "task", "seed", "rows", "origins", "accuracy", INTERVAL, "worst group", INTERVAL)
READING = (
    "Differences on the same rows of one trained pair. The intervals are of origins drawn again with all "
    "their rows (bootstrap, by group): they say nothing of other seeds, and nothing adjusts them for their "
    "number."
)


class Truth:
    """The tasks of records, made again from datasets on this machine; `problems` says which are not there."""

    def __init__(self, records: Records, facts: Facts) -> None:
        self.records = records
        self.problems: dict[str, str] = {}
        self._asked = {
            (one["dataset"].rstrip("/").rpartition("/")[2], one["protocol"]): one
            for sweep in facts.sweeps
            for one in sweep["tasks"]
        }
        self._tasks: dict[str, Task | None] = {}
        self._metadata: dict[str, Metadata] = {}

    def task(self, study: Study) -> Task | None:
        """The task of a study, if its dataset is here and is the same."""
        if study.task_id not in self._tasks:
            try:
                self._tasks[study.task_id] = self._made(study)
            except (ShiftdataError, OSError) as error:
                self._lost(study, str(error))
        return self._tasks[study.task_id]

    def _lost(self, study: Study, reason: str) -> None:
        self._tasks[study.task_id] = None
        self.problems.setdefault(clean(study.dataset), clean(reason))

    def _made(self, study: Study) -> Task | None:
        name, _, base = study.dataset.partition("/")
        asked = self._asked.get((name, study.protocol), {})
        place = asked.get("dataset", name)
        if study.dataset not in self._metadata:
            if study.dataset in self.problems:
                return None
            if not isinstance(find(place), Folder):
                raise InputError("the dataset is not on this machine")
            self._metadata[study.dataset] = read_metadata(place, base or None)
        text = study.protocol
        split = text if text.isidentifier() else parse_protocol(text)
        made = task_of(self._metadata[study.dataset], split, on_empty=asked.get("on_empty", "error"))
        if asked.get("unlabelled"):
            made = made.also(asked["unlabelled"], "unlabelled")
        if made.content_id() != study.task_id:
            raise InputError("the dataset on this machine is another build")
        return made

    def predicted(self, score: Score, seeds: Sequence[int] | None = None) -> dict[int, IntArray]:
        """What each seed of a study, or each of some seeds, predicts on the test, where it was kept."""
        made = {}
        for one in score.selected.runs:
            if seeds is None or one.seed in seeds:
                found = self.records.predicted(one.run, score.test, one.step)
                if found is not None:
                    made[one.seed] = found
        return made


def same_rows(groups: Sequence[Group], truth: Truth) -> Section:
    """Each method against the baseline on the same rows, under the first rule that has not seen the test."""
    tables, left = [], 0
    first: dict[tuple[Any, ...], Group] = {}
    for group in groups:
        if not rule_of(group.rule).oracle:
            first.setdefault((group.kind, group.family, group.dataset, group.backbone), group)
    for group in first.values():
        body = []
        for task_id in group.tasks[:MOST_TASKS]:
            some = [one for one in group.scores if one.selected.study.task_id == task_id]
            body += _against(some, group.baseline, truth)
        if body:
            left += max(0, len(group.tasks) - MOST_TASKS)
            title = f"Against {group.baseline} on the same rows, points: {group.title}"
            tables.append(plain_table(title, HEADER, body))
    notes = [READING]
    if left:
        notes.append(f"{left:,} further tasks are left out, {MOST_TASKS} a group of studies are shown.")
    notes += [f"Not compared on {name}: {reason}." for name, reason in truth.problems.items()]
    return Section("On the same rows", tuple(tables), tuple(notes if tables or truth.problems else ()))


def _against(scores: Sequence[Score], baseline: str, truth: Truth) -> list[list[str]]:
    """A line for each method of one task."""
    base = next((one for one in scores if one.method == baseline), None)
    task = truth.task(scores[0].selected.study) if base is not None else None
    if base is None or task is None:
        return []
    rows, counts = task.rows(base.test), task.counts(base.test)
    drawn = np.repeat(np.arange(len(rows)), 1 if counts is None else counts)
    true, group = _true(task, rows[drawn])
    group, origin = (
        np.unique(of, return_inverse=True)[1] for of in (group, task.metadata.origin[rows[drawn]])
    )
    counted = [f"{len(drawn):,}", f"{int(origin.max()) + 1:,}"]
    lines = []
    for one in scores:
        shared = sorted(set(one.seeds) & set(base.seeds))[:1]
        pair = [truth.predicted(of, shared) for of in (one, base)]
        if one is base or not all(pair):
            continue
        a, b = (_known(task, of[shared[0]])[drawn] for of in pair)
        cells = [one.method, clean(one.selected.study.protocol), f"{shared[0]}", *counted]
        size = int(group.max()) + 1
        for name in ("overall", "worst"):
            found = compare(true, a, b, groups=group, n_groups=size, origins=origin, statistic=name)
            cells += _cells(found)
        lines.append(cells)
    return lines


def _true(task: Task, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The true label of each row, one number for all that training does not know; and its group."""
    return _known(task, task.metadata.label[rows].astype(np.int64)), task.metadata.group[rows].astype(
        np.int64
    )


def _known(task: Task, labels: IntArray) -> IntArray:
    if "universal" not in task.metrics:
        return np.where(labels < 0, len(task.metadata.labels), labels)
    return np.where(np.isin(labels, task.label_ids), labels, len(task.metadata.labels))


def _cells(found: PairedComparison) -> tuple[str, str]:
    difference = found.difference
    return f"{100 * difference.estimate:+.2f}", f"{100 * difference.low:+.2f} to {100 * difference.high:+.2f}"


def failure_tables(group: Group, truth: Truth) -> tuple[Table, ...]:
    """Of continuous shifts, the share of trajectories that fail first at each severity."""
    made: list[Score] = []
    for one in group.scores if group.kind.name == "continuous shift" else ():
        histograms = _histograms(one, truth)
        if histograms:
            made.append(replace(one, figures=histograms))
    if not made:
        return ()
    numbers = []
    for name in dict.fromkeys(name for one in made for name in one.figures):
        numbers += laid_out(made, name, column=name)
    numbers = [one | {"metric": "failure share"} for one in numbers]
    notes = (*group.notes(OVER_SEEDS), "Of all trajectories; the rest never fails.")
    title = f"Trajectories that fail first, %, by severity: {group.title}"
    return (table_of(title, numbers, notes, corner=lambda _: "severity"),)


def _histograms(one: Score, truth: Truth) -> dict[str, FloatArray]:
    predicted = truth.predicted(one)
    task = truth.task(one.selected.study) if predicted else None
    if task is None:
        return {}
    points = [task.evaluate(labels, one.test).failure_points for labels in predicted.values()]
    found = [one for one in points if one is not None]
    shares = np.array([100 * one.histogram("trajectories") for one in found])
    return {f"{step:g}": shares[:, at] for at, step in enumerate(found[0].severities)} if found else {}
