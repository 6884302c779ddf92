"""What only predictions can say: comparisons on the same rows.

Records keep the predictions of chosen models, not the truth: that is in the metadata of the dataset, which is
looked for on this machine. No picture is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shiftdata.bench.records import Records, Study
from shiftdata.bench.reporting.facts import Facts
from shiftdata.bench.reporting.kinds import clean
from shiftdata.bench.reporting.scores import Group, Score, Section
from shiftdata.bench.selection import rule_of
from shiftdata.data.arrays import IntArray
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.data.places.search import find
from shiftdata.data.places.store import Folder
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.evaluation.metrics import compare
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.protocols import task as task_of
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.rows import counts_of
from shiftdata.tables import Table

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
    """The tasks of records, rebuilt from datasets on this machine; `problems` says which are not there."""

    def __init__(self, records: Records, facts: Facts) -> None:
        self.records = records
        self.problems: dict[str, str] = {}
        self._asked = {
            (asked["dataset"].rstrip("/").rpartition("/")[2], asked["protocol"]): asked
            for sweep in facts.sweeps
            for asked in sweep["tasks"]
        }
        self._tasks: dict[str, Task | None] = {}
        self._metadata: dict[str, Metadata] = {}

    def task(self, study: Study) -> Task | None:
        """The task of a study, if its dataset is here and is the same."""
        name = clean(study.dataset)
        if study.task_id not in self._tasks:
            self._tasks[study.task_id] = None
            if study.dataset in self._metadata or name not in self.problems:
                try:
                    self._tasks[study.task_id] = self._rebuilt(study)
                except (ShiftdataError, OSError) as error:
                    self.problems.setdefault(name, clean(str(error)))
        return self._tasks[study.task_id]

    def _rebuilt(self, study: Study) -> Task:
        name, _, base = study.dataset.partition("/")
        asked = self._asked.get((name, study.protocol), {})
        place, text = asked.get("dataset", name), study.protocol
        if study.dataset not in self._metadata:
            if not isinstance(find(place), Folder):
                raise InputError("the dataset is not on this machine")
            self._metadata[study.dataset] = read_metadata(place, base or None)
        split = text if text.isidentifier() else parse_protocol(text)
        task = task_of(self._metadata[study.dataset], split, on_empty=asked.get("on_empty", "error"))
        if asked.get("unlabelled"):
            task = task.also(asked["unlabelled"], "unlabelled")
        if task.content_id() != study.task_id:
            raise InputError("the dataset on this machine is another build")
        return task

    def predicted(self, score: Score) -> dict[int, IntArray]:
        """What each seed of a study predicts on the test, where it was kept."""
        labels = {at.seed: self.records.predicted(at.run, score.test, at.step) for at in score.selected.runs}
        return {seed: of for seed, of in labels.items() if of is not None}


def same_rows(groups: Sequence[Group], truth: Truth) -> Section:
    """Each method against the baseline on the same rows, under the first rule that has not seen the test."""
    first: dict[tuple[object, ...], Group] = {}
    for group in groups:
        if not rule_of(group.rule).oracle:
            first.setdefault((group.kind, group.family, group.dataset, group.backbone), group)
    tables, left = [], 0
    for group in first.values():
        body = []
        for task_id in group.tasks[:MOST_TASKS]:
            body += _against([score for score in group.scores if score.task_id == task_id], group, truth)
        if body:
            left += max(0, len(group.tasks) - MOST_TASKS)
            title = f"Against {group.baseline} on the same rows, points: {group.title}"
            tables.append(Table.plain(title, HEADER, body))
    notes = [READING]
    if left:
        notes.append(f"{left:,} further tasks are left out, {MOST_TASKS} a group of studies are shown.")
    notes += [f"Not compared on {name}: {reason}." for name, reason in truth.problems.items()]
    return Section("On the same rows", tuple(tables), tuple(notes if tables or truth.problems else ()))


def _against(scores: Sequence[Score], group: Group, truth: Truth) -> list[list[str]]:
    """A line for each method of one task."""
    base = next((score for score in scores if score.method == group.baseline), None)
    task = truth.task(scores[0].selected.study) if base is not None else None
    if base is None or task is None:
        return []
    metadata, rows, counts = task.metadata, task.rows(base.test), counts_of(task, base.test)
    drawn = np.repeat(np.arange(len(rows)), 1 if counts is None else counts)
    true = _known(task, metadata.label[rows[drawn]].astype(np.int64))
    groups, origin = (
        np.unique(of[rows[drawn]], return_inverse=True)[1] for of in (metadata.group, metadata.origin)
    )
    n_groups, theirs, lines = int(groups.max()) + 1, truth.predicted(base), []
    for score in scores:
        shared = sorted(set(score.seeds) & set(base.seeds))[:1]
        mine = truth.predicted(score)
        if score is base or not shared or shared[0] not in mine or shared[0] not in theirs:
            continue
        a, b = (_known(task, of[shared[0]])[drawn] for of in (mine, theirs))
        protocol, sizes = clean(score.selected.study.protocol), (len(drawn), int(origin.max()) + 1)
        line = [score.method, protocol, f"{shared[0]}", *(f"{size:,}" for size in sizes)]
        for name in ("overall", "worst"):
            pair = compare(true, a, b, groups=groups, n_groups=n_groups, origins=origin, statistic=name)
            by = pair.difference
            line += [f"{100 * by.estimate:+.2f}", f"{100 * by.low:+.2f} to {100 * by.high:+.2f}"]
        lines.append(line)
    return lines


def _known(task: Task, labels: IntArray) -> IntArray:
    """Labels with one number for all that training does not know."""
    known = np.isin(labels, task.label_ids) if "universal" in task.history.metrics else labels >= 0
    return np.where(known, labels, len(task.metadata.labels))
