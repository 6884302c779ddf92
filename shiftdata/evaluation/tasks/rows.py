"""The rows of a task's sets: everything that reading, evaluating and reporting need of a task."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.arrays import counted
from shiftdata.data.format.records import Filters
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.tasks.frozen import Frozen, freeze
from shiftdata.evaluation.tasks.sets import ROLES, History, Indices, LeakWarning, Role, RowSet

#: The start of notes that are printed first: a task is not what was asked for.
CAUTION = "caution: "


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Named sets of rows of one base, each with its roles, and how they came about."""

    metadata: Metadata
    sets: Mapping[str, RowSet]
    history: History = field(default_factory=History)

    def __repr__(self) -> str:
        sets = ", ".join(f"{name} ({rows.role}) {len(rows):,}" for name, rows in self.sets.items())
        cautions = "".join(f"; {note}" for note in self.history.notes if note.startswith(CAUTION))
        return f"<Task {self.describe()} of {self.metadata.name}: {sets}{cautions}>"

    def describe(self) -> str:
        """Return the protocols that made the task, in order."""
        return " & ".join(self.history.steps) or "canonical"

    def set_of(self, role: Role) -> str:
        """Return the first set whose own role this is, as `loader` ("fit") and `evaluate` ("test") do."""
        if role not in ROLES:
            raise not_found("role", role, ROLES)
        names = [name for name, rows in self.sets.items() if rows.role == role]
        whole = names[0].partition("/")[0] if names else ""
        if sum(name.partition("/")[0] == whole for name in names) == 1:
            return names[0]
        if names:  # the sets of cells or domains: the first of them would mislead
            raise InputError(
                f"{self.describe()} has cut {whole} into many sets: name one, such as {names[0]}"
            )
        roles = ", ".join(f"{name} ({rows.role})" for name, rows in islice(self.sets.items(), 12))
        raise InputError(f"{self.describe()} has no set with the role {role!r}: name one of {roles}")

    @cached_property
    def label_ids(self) -> Indices:
        """The numbers of the labels that training knows: those that a `fit` set should have, or all."""
        fit = [rows for rows in self.sets.values() if rows.role == "fit"] or list(self.sets.values())
        nuisances = max(1, len(self.metadata.nuisances))
        in_training = np.zeros(len(self.metadata.labels), bool)
        for rows in fit:
            in_training |= rows.expected.reshape(-1, nuisances).any(axis=1)
            in_training |= counted(self.metadata.label[rows.indices], len(in_training)) > 0
        return np.flatnonzero(in_training)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of `label_ids`: the outputs of a model of this task."""
        return tuple(self.metadata.labels[number] for number in self.label_ids.tolist())

    @cached_property
    def remapped(self) -> Indices:
        """For each label of the dataset its number from 0 to k - 1; k if only other sets have it, -1 if none.

        k is "unknown" in universal adaptation.
        """
        result = np.full(len(self.metadata.labels), -1)
        for rows in self.sets.values():
            present = counted(self.metadata.label[rows.indices], len(result)) > 0
            result[present] = len(self.label_ids)
        result[self.label_ids] = np.arange(len(self.label_ids))
        return result

    def rows(self, name: str, role: Role | None = None) -> Indices:
        """Return a set's rows of the metadata, in the order of `keys`, `table` and a loader's positions.

        Where labels are hidden they are in the order of hashed keys: neighbours in a file are of one group.
        """
        indices = row_set(self, name).indices
        return indices[self._hashed[name][1]] if hides_labels(self, name, role) else indices

    def keys(self, name: str, role: Role | None = None) -> list[str]:
        """Return the keys by which predictions are given; hashes where labels are hidden."""
        keys: list[str] = key_array(self, name, role).to_pylist()
        return keys

    def table(self, name: str, role: Role | None = None, *, named: bool = False) -> pa.Table:
        """Return the rows of a set, with `count` where rows were drawn with replacement.

        `named` gives labels and nuisances by name instead of their numbers in the dataset. Where labels are
        hidden only what a method may see: the hashed key, nuisance and severity.
        """
        metadata, columns, counts = self.metadata, self.metadata.names, counts_of(self, name, role)
        if hidden := hides_labels(self, name, role):
            columns = [metadata.nuisance_column, "severity"]
        table = metadata.take(columns, self.rows(name, role))
        if hidden:
            table = table.add_column(0, "key", key_array(self, name, role))
        names = {"label": metadata.labels, metadata.nuisance_column: metadata.nuisances}
        for column in set(names) & set(table.column_names) if named else ():
            place = table.column_names.index(column)
            table = table.set_column(place, column, pa.array(names[column]).take(table[column]))
        return table if counts is None else table.append_column("count", pa.array(counts))

    def filters(self) -> dict[str, Filters | None]:
        """Return `filters=` for each set, with which pyarrow and `datasets` read the same rows.

        None where filters cannot say it; `task.sets[name].reason` says why.
        """
        return {name: rows.filters for name, rows in self.sets.items()}

    def content_id(self) -> str:
        """Return a hash of every key with its set, role and count: equal in any order of rows."""
        return self._content_id

    @cached_property
    def _content_id(self) -> str:
        return freeze(self.metadata, self.sets)

    @cached_property
    def _hashed(self) -> Mapping[str, tuple[NDArray[np.uint64], Indices]]:
        """The sorted hashes of the keys of each set that may be used as unlabelled, and their order."""
        result = {}
        for name, rows in self.sets.items():
            if "unlabelled" in rows.roles:
                hashes = self.metadata.key_hashes(rows.indices)
                order = np.argsort(hashes)
                result[name] = (hashes[order], order)
        return result


def row_set(task: TaskRows, name: str) -> RowSet:
    """Return a set by its name."""
    if name not in task.sets:
        raise not_found("set", name, task.sets, f"The task is {task.describe()}.")
    return task.sets[name]


def hides_labels(task: TaskRows, name: str, role: Role | None = None) -> bool:
    """Return True if a set is used as unlabelled: by its own role, or by one of its others."""
    rows = row_set(task, name)
    if role is not None and role not in rows.roles:
        raise InputError(
            f"{name} has the role {' and '.join(rows.roles)}, not {role!r}: task.also({name!r}, {role!r}) "
            "gives a set a second role"
        )
    return (role or rows.role) == "unlabelled"


def key_array(task: TaskRows, name: str, role: Role | None = None) -> pa.Array:
    """Return `task.keys` as Arrow: a tenth of the memory."""
    if hides_labels(task, name, role):
        return pa.array([f"{number:016x}" for number in task._hashed[name][0].tolist()], pa.string())
    return task.metadata.keys(task.rows(name))


def hashes_of(task: TaskRows, name: str) -> Indices:
    """Return the hashed keys in batches of an unlabelled set, in the order of its `rows`."""
    return task._hashed[name][0].view(np.int64)


def counts_of(task: TaskRows, name: str, role: Role | None = None) -> Indices | None:
    """Return how often each of `task.rows` was drawn, if rows were drawn with replacement."""
    counts = row_set(task, name).counts
    if counts is None or not hides_labels(task, name, role):
        return counts
    return counts[task._hashed[name][1]]


def empty_groups(task: TaskRows, rows: RowSet) -> Indices:
    """Return the numbers of the groups that a set should have and does not; none where groups are hidden."""
    if "group" in task.metadata.hidden and (task.metadata.group[rows.indices] < 0).any():
        return np.empty(0, np.int64)
    present = np.zeros(len(rows.expected) + 1, bool)
    present[task.metadata.group[rows.indices]] = True  # the last is for rows without a group
    return np.flatnonzero(rows.expected & ~present[:-1])


def check_leaks(task: TaskRows, *, warn: bool = False) -> bool:
    """Refuse an origin on two sides, or warn of it; return True if there is one."""
    leaks = leaking_origins(task)
    if not leaks:
        return False
    origin = task.metadata.origin
    name = task.metadata.origin_names[leaks[0]].as_py()
    sets = [name for name, rows in task.sets.items() if (origin[rows.indices] == leaks[0]).any()]
    text = f"{len(leaks):,} origins are on two sides of the task, {name!r} in {' and '.join(sets)}"
    if not warn:
        raise InputError(f"{text}: a result would be too good. Cut by fold or origin")
    warnings.warn(f"{text}, as in the paper: a result will be too good", LeakWarning, stacklevel=4)
    return True


def leaking_origins(task: TaskRows) -> list[int]:
    """Return the numbers of the origins that are on two sides."""
    metadata = task.metadata
    if metadata.dataset is not None or metadata.numbered_origins is not None:
        # An origin of a dataset has one fold: sides that share no fold share no origin.
        fold = metadata.columns["fold"].view(np.uint8)
        if not _on_two_sides(task, fold, 256).any():
            return []
    shared: list[int] = np.flatnonzero(_on_two_sides(task, metadata.origin, metadata.n_origins)).tolist()
    return shared


def _on_two_sides(task: TaskRows, numbers: NDArray[np.integer], size: int) -> NDArray[np.bool_]:
    """Mark the numbers, of one for each row of the dataset, that are on two sides."""
    sides: dict[str, NDArray[np.bool_]] = {}
    for name, rows in task.sets.items():
        sides.setdefault(rows.side or name, np.zeros(size, bool))[numbers[rows.indices]] = True
    once, twice = np.zeros((2, size), bool)
    for side in sides.values():
        twice |= once & side
        once |= side
    return twice


def description_of(task: TaskRows) -> Frozen:
    """Return what a file of the frozen task says of it."""
    metadata, sets = task.metadata, task.sets
    return Frozen(
        dataset=metadata.name.partition("/")[0]
        if metadata.dataset is None
        else metadata.dataset.manifest.name,
        base=metadata.base,
        history=task.history.steps,
        roles={name: rows.roles for name, rows in sets.items()},
        sides={name: rows.side for name, rows in sets.items()},
        metrics=task.history.metrics,
        notes=task.history.notes,
        empty={name: empty_groups(task, rows).tolist() for name, rows in sets.items()},
    )
