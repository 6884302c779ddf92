"""What an export holds: the rows of a task's sets, with the numbers and folders that a layout gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shiftdata.dataset import OpenDataset
from shiftdata.errors import InputError, not_found
from shiftdata.exporting.folders.names import folder_names
from shiftdata.format.attribution import ATTRIBUTION
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import in_order, metadata_file
from shiftdata.metadata.columns import read_columns
from shiftdata.tasks import RowSet, Task

RECORD, KEYS, README = "shiftdata.json", "keys.csv", "README.md"
#: What may lie beside the folders and lists of any layout: nothing else may have these names.
OWN_FILES = (RECORD, KEYS, ATTRIBUTION, README)
#: Lists of names, beside which a set's list `<set>.txt` may lie.
LISTS = ("classes", "domains")
#: Of each row of the base, beside what a task knows.
COLUMNS = ("sha256", "length", "license", "attribution")


class Name(NamedTuple):
    """A label or a nuisance: its number in the dataset, its name, and its folder."""

    number: int
    name: str
    folder: str


class Entry(NamedTuple):
    """A row in a set: its position in the base, the numbers of its class and domain (-1 without one)."""

    set: str
    row: int
    key: str
    label: int
    domain: int
    group: int
    times: int


@dataclass(frozen=True)
class Plan:
    """The entries of an export in the order of sets and rows.

    `label` and `domain` of an entry count `classes` and `domains`: those that the export has, without gaps.
    `sets` gives the folder of each set. `rows` has what the metadata says of every row of the base.
    """

    dataset: OpenDataset
    manifest: Manifest
    base: str
    told: str
    sets: Mapping[str, str]
    classes: Sequence[Name]
    domains: Sequence[Name]
    entries: Sequence[Entry]
    task: Task
    rows: pa.Table

    @property
    def nuisance(self) -> str:
        """What the domains are: `style`, `domain`, `shift`."""
        return self.manifest.roles.nuisance

    def of_sets(self) -> Iterator[tuple[str, list[int]]]:
        """The positions among the entries of each set."""
        for name in self.sets:
            yield name, [number for number, entry in enumerate(self.entries) if entry.set == name]

    def group_of(self, entry: Entry) -> int:
        """The group as peers count it: the class times the number of domains, and the domain."""
        return entry.label * len(self.domains) + entry.domain


def plan_of(task: Task, *, by_folder: bool, sets: Mapping[str, str] | None = None) -> Plan:
    """Plan the export of a task.

    Args:
        task: any task over a dataset of pictures.
        by_folder: number classes and domains as readers of folders do, in the order of the folders' names;
            else in the dataset's order.
        sets: the sets to take, each under a name of its own: `{"train": "source_train"}`; default: all.

    """
    metadata = task.metadata
    if metadata.dataset is None:
        raise InputError(
            f"{metadata.name} is a table of your own, without pictures to export: make the task from a "
            "dataset by its name, folder or URL"
        )
    dataset, manifest = metadata.dataset, metadata.dataset.manifest
    dataset.check_unchanged()
    _check_pictures(manifest)
    taken = _taken(task, sets)
    rows = np.concatenate([found.indices for found in taken.values()])
    folders = dict(zip(taken, folder_names(list(taken), [*OWN_FILES, *LISTS]), strict=True))
    beside = [*OWN_FILES, *(f"{folder}.txt" for folder in folders.values())]
    kinds = metadata.nuisance[rows]
    classes = _named(metadata.labels, metadata.label[rows], [], by_folder=by_folder)
    domains = _named(metadata.nuisances, kinds[kinds >= 0], beside, by_folder=by_folder)
    return Plan(
        dataset=dataset,
        manifest=manifest,
        base=metadata.base,
        told=task.describe(),
        sets=folders,
        classes=classes,
        domains=domains,
        entries=list(_entries(task, taken, classes, domains)),
        task=task,
        rows=_rows(dataset, metadata.base),
    )


def _check_pictures(manifest: Manifest) -> None:
    if manifest.is_webdataset:
        raise InputError(f"{manifest.name} is in WebDataset format: export the Parquet dataset")
    if manifest.roles.modality != "image":
        kind = {"text": "texts", "table": "a table"}[manifest.roles.modality]
        raise InputError(
            f"{manifest.name} is {kind}, and this layout is for pictures: `--to webdataset` takes it, and "
            "its data/ and metadata/ are Parquet, which pandas, polars and `datasets` read as they are"
        )


def _taken(task: Task, sets: Mapping[str, str] | None) -> dict[str, RowSet]:
    """The sets to export, by the names they get; those without rows are none."""
    for name in (sets or {}).values():
        if name not in task.sets:
            raise not_found("set", name, task.sets, f"It was asked of {task.describe()}.")
    wanted = sets or {name: name for name in task.sets}
    found = {new: task.sets[old] for new, old in wanted.items() if len(task.sets[old].indices)}
    if not found:
        raise InputError(f"{task.describe()} of {task.metadata.name} has no row to export")
    return found


def _named(
    names: Sequence[str], numbers: np.ndarray, beside: Sequence[str], *, by_folder: bool
) -> list[Name]:
    """Those names that occur. All names get folders, so that an export of fewer classes has equal ones."""
    folders = folder_names(names, beside)
    found = [Name(number, names[number], folders[number]) for number in np.unique(numbers).tolist()]
    return sorted(found, key=lambda one: one.folder) if by_folder else found


def _entries(
    task: Task, taken: Mapping[str, RowSet], classes: Sequence[Name], domains: Sequence[Name]
) -> Iterator[Entry]:
    metadata = task.metadata
    label_at = {one.number: place for place, one in enumerate(classes)}
    domain_at = {one.number: place for place, one in enumerate(domains)} | {-1: -1}
    for name, rows in taken.items():
        counts = np.ones(len(rows.indices), np.int64) if rows.counts is None else rows.counts
        keys = metadata.table["key"].take(pa.array(rows.indices)).to_pylist()
        numbers = (
            array[rows.indices].tolist() for array in (metadata.label, metadata.nuisance, metadata.group)
        )
        for row, key, label, kind, group, count in zip(
            rows.indices.tolist(), keys, *numbers, counts.tolist(), strict=True
        ):
            yield Entry(name, row, key, label_at[label], domain_at[kind], group, count)


def _rows(dataset: OpenDataset, base: str) -> pa.Table:
    """What the metadata says of every row of a base, in the order of its splits, as tasks count them."""
    splits = in_order(dataset.manifest.base(base).splits)
    parts = [read_columns(dataset, metadata_file(base, split), COLUMNS) for split in splits]
    return pa.concat_tables(parts).combine_chunks()
