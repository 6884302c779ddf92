"""Streams: the test of a task in a frozen order, for models that adapt while they predict."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from shiftdata.data.format.writer import write_keys
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols.base import Protocol, Stage
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.sets import Indices
from shiftdata.stable import content_hash, rng

SETTINGS, ORDERS = ("episodic", "online", "continual", "mixed"), ("iid", "correlated")
#: Slots among which the rows of a class are cut at most, where labels are correlated.
MOST_SLOTS = 100


@dataclass(frozen=True, eq=False)
class Ordered:
    """The rows of a stream in their order; `segment` has the number of the segment of each."""

    task: Task
    rows: Indices
    segment: Indices
    segments: tuple[str, ...]

    def batches(self, size: int) -> list[Indices]:
        """Return the positions of each batch, which is of one segment.

        The last of a segment may be smaller; a single row, which has no statistics, joins the batch before.
        """
        if size < 1:
            raise InputError(f"a batch has at least 1 row, got {size}")
        result = []
        for number in range(len(self.segments)):
            positions = np.flatnonzero(self.segment == number)
            cuts = np.arange(size, len(positions), size)
            if size > 1 and len(cuts) and len(positions) - cuts[-1] == 1:
                cuts = cuts[:-1]
            result += np.split(positions, cuts)
        return result

    def table(self) -> pa.Table:
        """Return position, key and segment of each row, in the order of the stream."""
        names = pa.array(self.segments).take(pa.array(self.segment))
        columns = {"position": pa.array(np.arange(len(self.rows))), "key": self.task.metadata.keys(self.rows)}
        return pa.table({**columns, "segment": names})

    def content_id(self) -> str:
        """Return a hash of the keys and segments in their order."""
        table = self.table()
        return content_hash(*table["key"].to_pylist(), *table["segment"].to_pylist())

    def freeze(self, path: str | Path) -> str:
        """Write position, key and segment as Parquet, and return the `content_id`."""
        write_keys(Path(path), [self.table()])
        return self.content_id()


@dataclass(frozen=True, kw_only=True)
class Stream(Protocol):
    """The rows of all test sets one after the other, each once, as a model meets them that adapts.

    A segment is a nuisance at a severity; segments follow in the order of the nuisances, severities rising.
    A model starts again before each batch ("episodic"), before each segment ("online"), or never
    ("continual"); "mixed" shuffles all rows as one segment. The order within a segment is drawn by key and
    seed ("iid"), or has runs of one class ("correlated"): the rows of each class are cut into as many slots
    as there are classes, by shares from a Dirichlet distribution with the parameter `alpha`. Continual and
    mixed streams may come several `rounds`. Test sets get the second role "unlabelled", under which rows have
    neither label nor group.
    """

    setting: str = "online"
    order: str = "iid"
    alpha: float = 0.1
    rounds: int = 1
    seed: int = 0

    id: ClassVar[str] = "stream"
    works: ClassVar[Stage] = Stage.ORDER
    paper: ClassVar[str] = "TENT; CoTTA, section 4; NOTE and RoTTA, correlated labels"
    about: ClassVar[str] = "the test as a stream, for models that adapt at test time"
    said: ClassVar[Sequence[str]] = ("setting",)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, allowed in (("setting", SETTINGS), ("order", ORDERS)):
            if getattr(self, name) not in allowed:
                raise not_found(f"{name} of a stream", getattr(self, name), allowed)
        if self.rounds < 1 or not 0 < self.alpha < math.inf:
            raise InputError(f"{self} has no order: rounds are at least 1, and alpha is above 0")
        if self.rounds > 1 and self.setting not in ("continual", "mixed"):
            raise InputError(f"several rounds go with setting=continual or mixed, not {self.setting}")

    def make(self, task: Task) -> Task:
        if any(step.startswith(f"{self.id}@") for step in task.history.steps):
            raise InputError(f"{task.describe()} is a stream already: leave {self.id} out")
        for name, rows in task.sets.items():
            if rows.role == "test":
                task = task.also(name, "unlabelled")
        return task

    def order_of(self, task: Task) -> Ordered:
        """Return the rows of a task's test sets in the order of one round."""
        metadata = task.metadata
        tests = [rows.indices for rows in task.sets.values() if rows.role == "test"]
        rows = np.unique(np.concatenate([np.zeros(0, np.int64), *tests]))
        if not len(rows):
            raise InputError(f"{task.describe()} has no test row to stream")
        rows = rows[np.argsort(metadata.hashes(rows, self.name, self.seed), kind="stable")]
        names, segment = _segments(task, rows)
        if self.setting == "mixed":
            names, segment = ("mixed",), np.zeros_like(segment)
        parts = [np.flatnonzero(segment == number) for number in range(len(names))]
        if self.order == "correlated":
            label = metadata.label[rows]
            parts = [
                part[self._correlated(label[part], name)] for part, name in zip(parts, names, strict=True)
            ]
        at = np.concatenate(parts)
        return Ordered(task, rows[at], segment[at], names)

    def _correlated(self, label: Indices, segment: str) -> Indices:
        """Return an order with runs of one label, as RoTTA's: slot by slot, and in each class by class."""
        classes = np.unique(label)
        draws, count = rng(self.seed, self.name, segment), min(len(classes), MOST_SLOTS)
        slots: list[list[Indices]] = [[] for _ in range(count)]
        for number in classes:
            of_class = np.flatnonzero(label == number)
            shares = draws.dirichlet([self.alpha] * count)
            cuts = (np.cumsum(shares)[:-1] * len(of_class)).astype(np.int64)
            for slot, part in zip(slots, np.split(of_class, cuts), strict=True):
                slot.append(part)
        return np.concatenate([slot[place] for slot in slots for place in draws.permutation(len(classes))])


def _segments(task: Task, rows: Indices) -> tuple[tuple[str, ...], Indices]:
    """Name and number the segments: nuisances in their order, at rising severities if these differ."""
    metadata = task.metadata
    nuisance = metadata.nuisance[rows].astype(np.int64)
    severities, severity = np.zeros(1), np.zeros_like(nuisance)
    if "severity" in metadata.columns:
        severities, severity = np.unique(metadata.columns["severity"][rows], return_inverse=True)
    cells, segment = np.unique(nuisance * len(severities) + severity, return_inverse=True)
    names = []
    for cell in cells.tolist():
        number, step = divmod(cell, len(severities))
        name = metadata.nuisances[number] if number >= 0 else "untouched"
        names.append(f"{name}@{severities[step]:g}" if len(severities) > 1 else name)
    return tuple(names), segment


def stream_of(task: Task) -> Stream:
    """Return the stream that a task was made by, frozen tasks included."""
    start = f"{Stream.id}@{Stream.version}("
    for step in task.history.steps:
        if step.startswith(start):
            given = dict(re.findall(r"(\w+)='?([\w.-]+)'?", step.removeprefix(start)))
            types = {name: type(default) for name, default in Stream.parameters().items()}
            return Stream(**{name: types[name](value) for name, value in given.items() if name in types})
    raise InputError(
        f"{task.describe()} is no stream: make it one, as in "
        "sd.task(DATASET, 'continuous stream setting=continual order=iid')"
    )
