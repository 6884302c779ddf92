"""Which rows an export has, and the numbers and folders of their labels, nuisances and sets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import ATTRIBUTION, README, in_order, metadata_file
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.data.metadata.columns import read_columns
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols import Protocol, task
from shiftdata.evaluation.protocols.named import published
from shiftdata.evaluation.tasks import OnEmpty, Role, RowSet, Task

#: What some file system refuses, and spaces: lists divide their lines by them.
REFUSED = re.compile(r'[\s<>:"/\\|?*\x00-\x1f\x7f]+')
LONGEST = 200  # bytes of UTF-8; file systems end at 255, and names are joined


def folder_names(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """A folder's name for each name, no two alike even where case does not count; most stay as they are.

    `taken` are names in use. A name that can stay does, whatever the others are.

    >>> folder_names(["cat", "cat/dog", "Cat", "..", "cat_dog"])
    ['cat', 'cat_dog-2', 'Cat-2', 'unnamed', 'cat_dog']
    """
    used = {_alike(name) for name in taken}
    found: dict[int, str] = {}
    plain = [_plain(name) for name in names]
    # Those that stay come first; a name is changed only where it must be.
    for number in sorted(range(len(names)), key=lambda one: plain[one] != names[one]):
        found[number] = _free(plain[number], used)
        used.add(_alike(found[number]))
    return [found[number] for number in range(len(names))]


def _plain(name: str) -> str:
    """A name without what is refused; what begins with a dot or two underscores is hidden from `datasets`."""
    text = REFUSED.sub("_", unicodedata.normalize("NFC", name)).lstrip(".")
    text = re.sub("^[=+@\uff1d\uff0b\uff0d\uff20-]", "_", text)  # a formula, or an option of a command
    text = re.sub("^__+", "_", text)
    cut = text.encode(errors="replace")[:LONGEST].decode(errors="ignore")
    return cut.rstrip(".") or "unnamed"


def _free(name: str, used: set[str]) -> str:
    number, free = 1, name
    while _alike(free) in used:
        number += 1
        free = f"{name}-{number}"
    return free


def _alike(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


RECORD, KEYS = "shiftdata.json", "keys.csv"
#: What may lie beside the folders and lists of any layout: nothing else may have these names.
OWN_FILES = (RECORD, KEYS, ATTRIBUTION, README)
#: Lists of names, beside which a set's list `<set>.txt` may lie.
LISTS = ("classes", "domains")
#: Columns of the metadata that a task does not have.
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
class Contents:
    """The entries of an export in the order of sets and rows.

    `label` and `domain` of an entry count `classes` and `domains`: those that the export has, without gaps.
    `sets` gives the folder of each set, `roles` what it is for. `rows` has what the metadata says of every
    row of the base.
    """

    dataset: OpenDataset
    task: Task
    sets: Mapping[str, str]
    roles: Mapping[str, Sequence[Role]]
    classes: Sequence[Name]
    domains: Sequence[Name]
    entries: Sequence[Entry]
    rows: pa.Table

    @property
    def manifest(self) -> Manifest:
        return self.dataset.manifest

    @property
    def nuisance(self) -> str:
        return self.manifest.roles.nuisance

    @property
    def about(self) -> str:
        return self.task.describe()

    def of_sets(self) -> Iterator[tuple[str, list[int]]]:
        """The positions among the entries of each set."""
        for name in self.sets:
            yield name, [number for number, entry in enumerate(self.entries) if entry.set == name]

    def check_domains(self, layout: str) -> None:
        """Refuse rows that are in no domain, where a layout must put each into one."""
        without = sum(entry.domain < 0 for entry in self.entries)
        if without:
            raise InputError(
                f"{without:,} rows of {self.manifest.name}/{self.task.metadata.base} have no {self.nuisance} "
                f"(untouched content has none), and {layout} needs one for each row: choose another base or "
                "task, or the layout imagefolder or lists"
            )


def chosen_task(
    dataset: DatasetName,
    *,
    config: str | None = None,
    base: str | None = None,
    protocol: Protocol | str | None = None,
    on_empty: OnEmpty = "error",
) -> Task:
    """The task that a command line names; by default the canonical sets of the default base.

    `config` is a canonical split (`gf_k8_mu10`) or a base, as `shiftdata info` lists them: its rows are those
    of `load_dataset(dataset, config)`. The others are as in `sd.task`.
    """
    if config is None:
        return task(dataset, protocol, base=base, on_empty=on_empty)
    if protocol or base:
        other = "a protocol" if protocol else "base"
        raise InputError(f"config and {other} do not go together: each of them says which rows to export")
    opened = open_dataset(dataset)
    manifest = opened.manifest
    split, base, names = manifest.rows_behind(config)
    if split is None:
        return task(opened, base=base)
    made = published(read_metadata(opened, base), split)
    return replace(
        made, sets={name: made.sets[name] for name in names}, history=replace(made.history, steps=(config,))
    )


def contents_of(task: Task, *, by_folder: bool, sets: Mapping[str, str] | None = None) -> Contents:
    """What the export of a task contains.

    Args:
        task: any task over a dataset of pictures.
        by_folder: number classes and domains as readers of folders do, in the order of the folders' names;
            else in the dataset's order.
        sets: the sets to take, by their new names: `{"train": "source_train"}`; default: all.

    """
    metadata = task.metadata
    dataset = _pictures(metadata)
    taken = _taken(task, sets)
    rows = np.concatenate([found.indices for found in taken.values()])
    folders = dict(zip(taken, folder_names(list(taken), [*OWN_FILES, *LISTS]), strict=True))
    beside = [*OWN_FILES, *(f"{folder}.txt" for folder in folders.values())]
    numbers = metadata.nuisance[rows]
    classes = _named(metadata.labels, metadata.label[rows], [], by_folder=by_folder)
    domains = _named(metadata.nuisances, numbers[numbers >= 0], beside, by_folder=by_folder)
    entries = list(_entries(metadata, taken, classes, domains))
    roles = {name: found.roles for name, found in taken.items()}
    return Contents(dataset, task, folders, roles, classes, domains, entries, _rows(dataset, metadata.base))


def _pictures(metadata: Metadata) -> OpenDataset:
    """The dataset of pictures behind a task, or an error that says what to do."""
    dataset = metadata.dataset
    if dataset is None:
        raise InputError(
            f"{metadata.name} is a table of your own, without pictures to export: make the task from a "
            "dataset by its name, folder or URL"
        )
    dataset.check_unchanged(force=True)
    manifest = dataset.manifest
    manifest.require_pixels(dataset.address)
    if manifest.is_webdataset:
        raise InputError(f"{manifest.name} is in WebDataset format: export the Parquet dataset")
    if manifest.roles.modality != "image":
        examples = {"text": "texts", "table": "rows of a table"}[manifest.roles.modality]
        raise InputError(
            f"the examples of {manifest.name} are {examples}, and this layout is for pictures: export it "
            "with `--to webdataset`, or read its Parquet files with pandas, polars or `datasets`"
        )
    return dataset


def _taken(task: Task, sets: Mapping[str, str] | None) -> dict[str, RowSet]:
    """The sets to export, by their new names, without those that have no row."""
    for name in (sets or {}).values():
        if name not in task.sets:
            raise not_found("set", name, task.sets, f"The task is {task.describe()}.")
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
    metadata: Metadata, taken: Mapping[str, RowSet], classes: Sequence[Name], domains: Sequence[Name]
) -> Iterator[Entry]:
    label_at = {one.number: place for place, one in enumerate(classes)}
    domain_at = {one.number: place for place, one in enumerate(domains)} | {-1: -1}
    for name, rows in taken.items():
        at = rows.indices
        counts = np.ones(len(at), np.int64) if rows.counts is None else rows.counts
        keys = metadata.keys(at).to_pylist()
        arrays = (metadata.label[at], metadata.nuisance[at], metadata.group[at], counts)
        columns = (array.tolist() for array in arrays)
        for row, key, label, nuisance, group, count in zip(at.tolist(), keys, *columns, strict=True):
            yield Entry(name, row, key, label_at[label], domain_at[nuisance], group, count)


def _rows(dataset: OpenDataset, base: str) -> pa.Table:
    """What the metadata says of every row of a base, in the order of its splits, as tasks count them."""
    splits = in_order(dataset.manifest.base(base).splits)
    parts = [read_columns(dataset, metadata_file(base, split), COLUMNS) for split in splits]
    dataset.check_unchanged(force=True)  # else these rows may be of another version than the task
    return pa.concat_tables(parts).combine_chunks()
