"""The rows of an export, and the numbers and folders of their labels, nuisances and sets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.exporting.sets import NamedRows, NamedSets
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import ATTRIBUTION, README, in_order, metadata_file
from shiftdata.data.metadata import Metadata
from shiftdata.data.metadata.columns import read_columns
from shiftdata.errors import InputError

RECORD, KEYS = "shiftdata.json", "keys.csv"
#: Files next to the folders and lists of any layout, whose names no folder may have.
OWN_FILES = (RECORD, KEYS, ATTRIBUTION, README)
#: Next to it a set's list `<set>.txt` may lie.
CLASSES = "classes"
#: Columns of the metadata files that `Metadata` does not have.
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
    `folders` names the folder of each set. `rows` has the metadata of every row of the base.
    """

    dataset: OpenDataset
    of: NamedSets
    folders: Mapping[str, str]
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


def contents_of(named: NamedSets, *, by_folder: bool) -> Contents:
    """Collect what an export contains.

    `by_folder` numbers classes and domains as readers of folders do, in the order of the folders' names;
    else they are in the dataset's order.
    """
    metadata = named.metadata
    dataset = _pictures(metadata)
    sets = {name: rows for name, rows in named.sets.items() if len(rows.rows)}
    if not sets:
        raise InputError(f"{named.protocol} of {metadata.name} has no row to export: choose another task")
    rows = np.concatenate([of_set.rows for of_set in sets.values()])
    folders = dict(zip(sets, folder_names(list(sets), [*OWN_FILES, CLASSES]), strict=True))
    files = [*OWN_FILES, *(f"{folder}.txt" for folder in folders.values())]
    numbers = metadata.nuisance[rows]
    classes = _named(metadata.labels, metadata.label[rows], [], by_folder=by_folder)
    domains = _named(metadata.nuisances, numbers[numbers >= 0], files, by_folder=by_folder)
    entries = list(_entries(metadata, sets, classes, domains))
    return Contents(dataset, named, folders, classes, domains, entries, _rows(dataset, metadata.base))


def _pictures(metadata: Metadata) -> OpenDataset:
    """Return the dataset of pictures behind metadata, or raise an error that says what to do."""
    dataset = metadata.with_examples()
    dataset.check_unchanged(force=True)
    manifest = dataset.manifest
    manifest.require_pixels(dataset.address)
    if manifest.is_webdataset:
        raise InputError(f"{manifest.name} is in WebDataset format: export the Parquet dataset")
    if manifest.roles.modality != "image":
        raise InputError(
            f"{manifest.name} has the modality {manifest.roles.modality}, and this layout is for pictures: "
            "export it with `--to webdataset`"
        )
    return dataset


def _named(names: Sequence[str], numbers: np.ndarray, taken: Sequence[str], *, by_folder: bool) -> list[Name]:
    """Number the names that occur. All get folders: an export of fewer classes has equal ones."""
    folders = folder_names(names, taken)
    named = [Name(number, names[number], folders[number]) for number in np.unique(numbers).tolist()]
    return sorted(named, key=lambda name: name.folder) if by_folder else named


def _entries(
    metadata: Metadata, sets: Mapping[str, NamedRows], classes: Sequence[Name], domains: Sequence[Name]
) -> Iterator[Entry]:
    label_at = {label.number: place for place, label in enumerate(classes)}
    domain_at = {domain.number: place for place, domain in enumerate(domains)} | {-1: -1}
    for name, rows in sets.items():
        at = rows.rows
        arrays = (at, metadata.label[at], metadata.nuisance[at], metadata.group[at], rows.times)
        columns = (array.tolist() for array in arrays)
        for key, row, label, nuisance, group, times in zip(
            metadata.keys(at).to_pylist(), *columns, strict=True
        ):
            yield Entry(name, row, key, label_at[label], domain_at[nuisance], group, times)


def _rows(dataset: OpenDataset, base: str) -> pa.Table:
    """Read the metadata of every row of a base, in the order of its splits."""
    splits = in_order(dataset.manifest.base(base).splits)
    columns = [*COLUMNS, dataset.manifest.roles.nuisance]
    parts = [read_columns(dataset, metadata_file(base, split), columns) for split in splits]
    dataset.check_unchanged(force=True)  # else these rows may be of another version than the sets
    return pa.concat_tables(parts).combine_chunks()


#: What some file system refuses, and spaces: lists divide their lines by them.
REFUSED = re.compile(r'[\s<>:"/\\|?*\x00-\x1f\x7f]+')
LONGEST_NAME = 200  # bytes of UTF-8; file systems end at 255, and names are joined


def folder_names(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Name a folder for each name, no two equal even where case does not count; most names stay.

    `taken` are names in use. A name that can stay does, whatever comes before it.

    >>> folder_names(["cat", "cat/dog", "Cat", "..", "cat_dog"])
    ['cat', 'cat_dog-2', 'Cat-2', 'unnamed', 'cat_dog']
    """
    used = {_folded(name) for name in taken}
    plain = [_plain(name) for name in names]
    folders = dict.fromkeys(range(len(names)), "")
    # Names that stay come first: another is changed only where it must be.
    for at in sorted(folders, key=lambda at: plain[at] != names[at]):
        number, folders[at] = 1, plain[at]
        while _folded(folders[at]) in used:
            number += 1
            folders[at] = f"{plain[at]}-{number}"
        used.add(_folded(folders[at]))
    return list(folders.values())


def _plain(name: str) -> str:
    """Replace what is refused, and a first dot or two underscores, which hide a file from `datasets`."""
    text = REFUSED.sub("_", unicodedata.normalize("NFC", name)).lstrip(".")
    text = re.sub("^[=+@\uff1d\uff0b\uff0d\uff20-]", "_", text)  # a formula, or an option of a command
    text = re.sub("^__+", "_", text)
    cut = text.encode(errors="replace")[:LONGEST_NAME].decode(errors="ignore")
    return cut.rstrip(".") or "unnamed"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
