"""What tars contain: whole bases and tasks, each with its sets, and a row for each sample of a set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.exporting.folders.contents import chosen_task
from shiftdata.data.format.identity import base_content_id, task_content_id
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.names import is_path_part
from shiftdata.data.format.paths import in_order, metadata_file
from shiftdata.data.format.records import Base, Split, TaskOf
from shiftdata.data.format.schema import columns
from shiftdata.data.format.written import groups_of, row_bytes, size_of
from shiftdata.data.loading.tars.index import sample_names
from shiftdata.data.metadata.columns import read_columns
from shiftdata.errors import InputError, IntegrityError
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.rows import counts_of, hides_labels, key_array

Indices = NDArray[np.int64]

#: What samples of an unlabelled set keep, next to their nuisance: nothing that tells one class from another.
SEEN = ("key", "severity", "sha256", "length", "count", "copy")


@dataclass(frozen=True)
class Samples:
    """The samples of one set: their rows as the index has them, and the positions of these in the base."""

    rows: pa.Table
    at: Indices

    def take(self, places: Indices) -> Samples:
        """Some of the samples, in that order."""
        return Samples(self.rows.take(pa.array(places)), self.at[places])

    def names(self) -> list[str]:
        """The names of the samples, with which those of their members begin."""
        names: list[str] = sample_names(self.rows).to_pylist()
        return names


@dataclass(frozen=True)
class Entry:
    """One config of the tars: its record, the base of its rows, and what gives the samples of its sets."""

    record: Base
    base: Base
    load: Callable[[], Mapping[str, Samples]]


class Rows:
    """The rows of a dataset's bases, compared with their identity."""

    def __init__(self, dataset: OpenDataset) -> None:
        self.dataset = dataset
        self._last: tuple[str, dict[str, pa.Table]] = ("", {})

    def of(self, base: Base) -> dict[str, pa.Table]:
        """The metadata of each split of a base; that of the last base is kept."""
        if self._last[0] != base.name:
            self._last = ("", {})
            self._last = (base.name, self._read(base))
        return self._last[1]

    def _read(self, base: Base) -> dict[str, pa.Table]:
        manifest = self.dataset.manifest
        names = [*columns(manifest.roles.nuisance), "length", "sha256"]
        tables = {
            split: read_columns(self.dataset, metadata_file(base.name, split), names)
            for split in in_order(base.splits)
        }
        self.dataset.check_unchanged(force=True)  # else these rows may be of another version
        if base_content_id(pa.concat_tables(tables.values()), manifest, base) != base.content_id:
            raise IntegrityError(
                f"{self.dataset.address}: metadata/{base.name} has other rows than the manifest says: "
                "fetch or build the dataset again"
            )
        return tables


def entries_of(dataset: OpenDataset, configs: Sequence[str], tasks: Mapping[str, Task]) -> list[Entry]:
    """What an export contains: configs by name, and tasks; without any of both, all bases."""
    manifest, rows = dataset.manifest, Rows(dataset)
    bases = {base.name: base for base in manifest.bases}
    chosen = {name: None for name in dict.fromkeys(configs) if name in bases}
    named = {name: chosen_task(dataset, config=name) for name in dict.fromkeys(configs) if name not in bases}
    if twice := {*named, *bases} & {*tasks}:
        raise InputError(f"{min(twice)} is a config of {manifest.name}: give the task another name")
    if not (configs or tasks):
        chosen = dict.fromkeys(bases)
    entries = [Entry(bases[name], bases[name], _whole(rows, bases[name])) for name in chosen]
    return entries + [_task_entry(rows, name, task) for name, task in {**named, **tasks}.items()]


def _whole(rows: Rows, base: Base) -> Callable[[], Mapping[str, Samples]]:
    def load() -> Mapping[str, Samples]:
        found, first = {}, 0
        for split, table in rows.of(base).items():
            found[split] = Samples(table, np.arange(first, first + len(table)))
            first += len(table)
        return found

    return load


def _task_entry(rows: Rows, name: str, task: Task) -> Entry:
    manifest, of = rows.dataset.manifest, task.metadata.dataset
    if of is None or of.sha256 != rows.dataset.sha256:
        raise InputError(
            f"the task {name} is not of {rows.dataset.address}, opened as it is now: make it again"
        )
    if not is_path_part(name):
        raise InputError(f"{name!r} cannot name a task in tars: use letters, digits, '_', '-' and '.'")
    base = manifest.base(task.metadata.base)
    sets = _safe_names([one for one, of_set in task.sets.items() if len(of_set.indices)])

    def load() -> Mapping[str, Samples]:
        every = pa.concat_tables(rows.of(base).values())
        return {safe: _drawn(every, task, one) for one, safe in sets.items()}

    if not sets:
        raise InputError(f"{task.describe()} of {task.metadata.name} has no row to export")
    roles = {safe: list(task.sets[one].roles) for one, safe in sets.items()}
    samples = load()
    record = Base(
        name=name,
        summary=_summary(manifest, name, task),
        content_id=task_content_id({one: of_set.rows for one, of_set in samples.items()}, manifest, roles),
        splits={one: _size(of_set, manifest) for one, of_set in samples.items()},
        task=TaskOf(base=base.name, protocol=_words(manifest, name, task), roles=roles),
    )
    return Entry(record, base, load)


def _summary(manifest: Manifest, name: str, task: Task) -> str:
    split = manifest.canonical(name)
    about = split.summary if split else f"{task.describe()} on {task.metadata.base}."
    return " ".join([about, *(f"{note}." for note in (split.notes if split else task.history.notes))])


def _words(manifest: Manifest, name: str, task: Task) -> str:
    split = manifest.canonical(name)
    return split.protocol if split else task.describe()


def _size(samples: Samples, manifest: Manifest) -> Split:
    """How much a set is; the groups of one without labels stay hidden."""
    return size_of(groups_of(samples.rows), row_bytes(samples.rows, manifest.roles))


def _safe_names(sets: Sequence[str]) -> dict[str, str]:
    """What sets are called in paths, and as splits of `datasets`: `test/fog@3` becomes `test.fog_3`."""
    safe = {name: re.sub(r"[^A-Za-z0-9_.]+", "_", name.replace("/", ".")) for name in sets}
    safe = {name: re.sub(r"\.+", ".", text).strip(".") or "_" for name, text in safe.items()}
    for name, text in safe.items():
        if list(safe.values()).count(text) > 1:
            raise InputError(
                f"the set {name!r} would be called {text!r} in tars, as another: rename it (--sets)"
            )
    return safe


def _drawn(every: pa.Table, task: Task, name: str) -> Samples:
    """The samples of a set of a task: each row as often as it was drawn."""
    counts = counts_of(task, name)
    at = task.rows(name)
    counts = np.ones(len(at), np.int64) if counts is None else counts
    rows = np.repeat(np.arange(len(at)), counts)
    copies = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    table = every.take(pa.array(at[rows]))
    drawn = {"count": pa.array(counts[rows], pa.int32()), "copy": pa.array(copies, pa.int32())}
    for column, values in drawn.items():
        table = table.append_column(column, values)
    if hides_labels(task, name):
        keys = key_array(task, name).take(pa.array(rows))
        table = _hidden(table, keys, task.metadata.nuisance_column)
    return Samples(table, at[rows])


def _hidden(table: pa.Table, keys: pa.Array, nuisance: str) -> pa.Table:
    """The rows of an unlabelled set as a method may see them: the key hashed, and nothing of the class."""
    for place, name in enumerate(table.column_names):
        if name not in (*SEEN, nuisance):
            table = table.set_column(place, name, pa.nulls(len(table), table[name].type))
    return table.set_column(table.column_names.index("key"), "key", keys)
