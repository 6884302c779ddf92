"""The layouts by name: where each puts pictures, and which lists it writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from shiftdata.data.exporting.folders.contents import Contents, Entry, Name
from shiftdata.data.exporting.folders.names import folder_names
from shiftdata.data.format.paths import README
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError
from shiftdata.tables import csv_lines

#: Text files by their paths, with their lines.
Texts: TypeAlias = Iterator[tuple[str, Iterable[str]]]
#: The paths of each entry's files.
Paths: TypeAlias = Sequence[Sequence[str]]

#: What readers of one list per domain call the set.
PHASES = {"validation": "val"}


class Layout:
    """One layout. Here, each picture lies once in the folder of its class, and lists name its sets."""

    #: What is in its folder, and who reads it.
    about: str
    #: Whether readers take an example's class from folders, and number these by their names.
    in_folders = False

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        """Return the paths of an entry's files without their ending."""
        return [f"images/{contents.classes[entry.label].folder}/{entry.key}"]

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        """Yield the lists."""
        raise NotImplementedError

    def check(self, contents: Contents) -> list[str]:
        """Note what readers of this layout cannot see; raise an error where they would see it wrongly."""
        return []


class ImageFolder(Layout):
    """One folder per set and class."""

    about = "<set>/<label>/<key>.jpg: torchvision's ImageFolder, `datasets`"
    in_folders = True

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        folder = f"{contents.folders[entry.set]}/{contents.classes[entry.label].folder}"
        return _copies(f"{folder}/{entry.key}", entry.times)

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        yield README, _readme(contents)

    def check(self, contents: Contents) -> list[str]:
        return [
            f"{name} has {present} of {wanted} classes, and torchvision's ImageFolder numbers those it "
            "finds: take labels by the folders' names"
            for name, _, present, wanted in _lacking(contents, "classes")
        ]


def _readme(contents: Contents) -> Iterable[str]:
    """Name the splits for `datasets`, which would guess them: a class `train` would become one.

    No metadata.csv: where there is one, `datasets` gives no labels.
    """
    files = [{"split": _split(name), "path": f"{name}/**"} for name in contents.folders.values()]
    configs = [{"config_name": "default", "data_files": files}]
    first = next(iter(contents.folders.values()))
    manifest = contents.manifest
    return [
        "---",
        f"configs: {json.dumps(configs)}",
        "---",
        "",
        f"{manifest.title} ({manifest.name} {manifest.version}), {contents.of.protocol}, as folders:",
        "`<set>/<class>/<key>`. `keys.csv` says more about each picture.",
        "",
        '- `datasets.load_dataset("<this folder>")` gives the sets as splits.',
        f'- `torchvision.datasets.ImageFolder("<this folder>/{first}")` reads a set.',
        "",
        "Both number the classes by the sorted names of their folders; `class_to_label` in `shiftdata.json`",
        "has the numbers of the dataset itself.",
    ]


def _split(name: str) -> str:
    """Name a set as a split of `datasets`, which has only letters, digits, dots and underscores."""
    return "".join(sign if sign.isalnum() or sign in "._" else "_" for sign in name)


class DomainBed(Layout):
    """One folder per domain and class."""

    about = "<domain>/<label>/<key>.jpg, all sets together: DomainBed"
    in_folders = True

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        folder = f"{contents.domains[entry.domain].folder}/{contents.classes[entry.label].folder}"
        return _copies(f"{folder}/{entry.key}", entry.times)

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        for name, numbers in contents.by_set():
            lines = [
                f"{path} {contents.entries[number].label}" for number in numbers for path in paths[number]
            ]
            yield f"{contents.folders[name]}.txt", lines

    def check(self, contents: Contents) -> list[str]:
        """Refuse a domain without one of the classes: an ImageFolder would number its classes otherwise."""
        _check_domains(contents, "domainbed")
        present = {(entry.domain, entry.label) for entry in contents.entries}
        missing = [
            f"{domain.name}/{label.name}"
            for at, domain in enumerate(contents.domains)
            for number, label in enumerate(contents.classes)
            if (at, number) not in present
        ]
        if missing:
            shown = ", ".join(missing[:8]) + (" ..." if len(missing) > 8 else "")
            raise InputError(
                f"{contents.of.protocol} has no row in {len(missing):,} cells of domain and class ({shown}), "
                "and DomainBed numbers the classes of each domain by the folders it finds: choose a task "
                "with every class in every domain, or the layout lists or wilds"
            )
        return [
            "DomainBed cuts each domain itself; the sets of the task are in the lists next to the folders"
        ]


class Wilds(Layout):
    """One CSV file with names and numbers."""

    about = "<name>_v1.0/metadata.csv with splits, labels and groups: WILDS"

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        return [f"{_wilds_folder(contents)}/{stem}" for stem in super().stems(contents, entry)]

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        manifest, nuisance, folder = contents.manifest, contents.nuisance, _wilds_folder(contents)
        header = ["img_filename", "y", "split", nuisance, "group", "split_name", "label_name"]
        rows = chain([[*header, f"{nuisance}_name"]], self._rows(contents, paths))
        yield f"{folder}/metadata.csv", csv_lines(rows)
        yield f"{folder}/names.csv", _meanings(contents, nuisance)
        about = f"{manifest.name} {manifest.version}, {contents.of.protocol}, content {manifest.content_id}"
        yield f"{folder}/RELEASE_v{folder.rpartition('_v')[2]}.txt", [about]

    def _rows(self, contents: Contents, paths: Paths) -> Iterator[Sequence[Any]]:
        splits = split_numbers(contents.folders)
        for entry, (path,) in zip(contents.entries, paths, strict=True):
            group = entry.label * len(contents.domains) + entry.domain
            numbers = [entry.label, splits[entry.set], entry.domain, group]
            names = [entry.set, contents.classes[entry.label].name, contents.domains[entry.domain].name]
            yield from [[path.partition("/")[2], *numbers, *names]] * entry.times

    def check(self, contents: Contents) -> list[str]:
        _check_domains(contents, "wilds")
        return []


def _wilds_folder(contents: Contents) -> str:
    """Name a dataset's folder as WILDS does; its versions have two numbers."""
    version = ".".join(contents.manifest.version.split(".")[:2])
    return f"{contents.manifest.name}_v{version}"


class BalancingGroups(Layout):
    """One CSV file with numbers."""

    about = "metadata_<name>.csv with id, filename, split, y, a: BalancingGroups, SMA"

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        header = ["id", "filename", "split", "y", "a"]
        rows = ([number, *row] for number, row in enumerate(self._rows(contents, paths)))
        yield f"metadata_{contents.manifest.name}.csv", csv_lines(chain([header], rows))
        yield "names.csv", _meanings(contents, "a")

    def _rows(self, contents: Contents, paths: Paths) -> Iterator[Sequence[Any]]:
        splits = split_numbers(contents.folders)
        for entry, (path,) in zip(contents.entries, paths, strict=True):
            row = [path.removeprefix("images/"), splits[entry.set], entry.label, entry.domain]
            yield from [row] * entry.times

    def check(self, contents: Contents) -> list[str]:
        _check_domains(contents, "balancinggroups")
        unknown = [name for name in contents.folders if name not in SPLITS]
        if unknown:
            raise InputError(
                f"balancinggroups knows the splits train, validation and test, and the task has "
                f"{', '.join(unknown)}: say which set is which, as in --sets train={unknown[0]}"
            )
        return [
            f"{name} has {present} of {wanted} values of {column}: code that counts the values of each "
            "split, as the paper's does, cannot read it; use names.csv"
            for name, column, present, wanted in _lacking(contents, "y", "a")
        ]


class Lists(Layout):
    """One list per set, and one per set and domain."""

    about = "<set>.txt, lists/<domain>_<set>.txt of `path label` lines: TLlib, DomainBed-v2, NICO++"

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        yield "classes.txt", _names(contents.classes)
        if contents.domains:
            yield "domains.txt", _names(contents.domains)
        pairs = [(name, at) for name in contents.folders for at in range(len(contents.domains))]
        titles = [
            f"{contents.domains[at].folder}_{PHASES.get(folder, folder)}"
            for folder, at in ((contents.folders[name], at) for name, at in pairs)
        ]
        lists = dict(zip(pairs, folder_names(titles), strict=True))  # no two alike, whatever the names
        for name, numbers in contents.by_set():
            yield f"{contents.folders[name]}.txt", _lines(contents, paths, numbers)
            for at in range(len(contents.domains)):
                mine = [number for number in numbers if contents.entries[number].domain == at]
                if mine:
                    yield f"lists/{lists[name, at]}.txt", _lines(contents, paths, mine)


def _names(names: Sequence[Name]) -> list[str]:
    return [" ".join(name.name.split()) for name in names]


def _lines(contents: Contents, paths: Paths, numbers: Sequence[int]) -> Iterator[str]:
    for number in numbers:
        entry = contents.entries[number]
        yield from [f"{paths[number][0]} {entry.label}"] * entry.times


LAYOUTS: dict[str, Layout] = {
    "imagefolder": ImageFolder(),
    "wilds": Wilds(),
    "domainbed": DomainBed(),
    "balancinggroups": BalancingGroups(),
    "lists": Lists(),
}


def _copies(stem: str, count: int) -> list[str]:
    """Return a path for each copy of a row drawn several times. Keys have no dot, so no two are equal."""
    return [stem, *(f"{stem}.{number}" for number in range(2, count + 1))]


def split_numbers(sets: Iterable[str]) -> dict[str, int]:
    """Number train, validation and test 0, 1 and 2, as everywhere; other sets follow in their order.

    >>> split_numbers(["source_train", "test", "train", "target_test"])
    {'source_train': 3, 'test': 2, 'train': 0, 'target_test': 4}
    """
    names = list(sets)
    more = iter(range(len(SPLITS), len(SPLITS) + len(names)))
    return {name: list(SPLITS).index(name) if name in SPLITS else next(more) for name in names}


def _meanings(contents: Contents, domain_column: str) -> Iterator[str]:
    """Write `names.csv`: the meaning of each number in a layout's CSV file, by column."""
    named = [("y", number, label.name) for number, label in enumerate(contents.classes)]
    named += [(domain_column, number, domain.name) for number, domain in enumerate(contents.domains)]
    named += [("split", number, name) for name, number in split_numbers(contents.folders).items()]
    return csv_lines([["column", "number", "name"], *named])


def _lacking(contents: Contents, *columns: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield each set that lacks a class or domain, their column, how many it has and how many there are."""
    wanted = (len(contents.classes), len(contents.domains))
    for name, numbers in contents.by_set():
        pairs = np.array([contents.entries[number][3:5] for number in numbers])
        for column, values, count in zip(columns, pairs.T, wanted, strict=False):
            if (present := len(np.unique(values))) < count:
                yield name, column, present, count


def _check_domains(contents: Contents, layout: str) -> None:
    """Refuse rows that are in no domain, where a layout must put each into one."""
    without = sum(entry.domain < 0 for entry in contents.entries)
    if without:
        raise InputError(
            f"{without:,} rows of {contents.manifest.name}/{contents.of.metadata.base} have no "
            f"{contents.nuisance} (untouched content has none), and {layout} needs one for each row: choose "
            "another base or task, or the layout imagefolder or lists"
        )
