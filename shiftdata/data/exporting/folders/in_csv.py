"""Layouts with one CSV file of names and numbers: WILDS and BalancingGroups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from shiftdata.data.exporting.folders.contents import Contents, Entry
from shiftdata.data.exporting.folders.layout import (
    Found,
    Layout,
    Paths,
    Texts,
    csv_rows,
    meanings,
    split_numbers,
)
from shiftdata.data.exporting.folders.record import Record
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError
from shiftdata.tables import csv_lines


class Wilds(Layout):
    """One CSV file with names and numbers."""

    about = "<name>_v1.0/metadata.csv with splits, labels and groups: WILDS"

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        folder = _folder(contents.manifest.name, contents.manifest.version)
        return [f"{folder}/{stem}" for stem in super().stems(contents, entry)]

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        manifest, nuisance = contents.manifest, contents.nuisance
        folder = _folder(manifest.name, manifest.version)
        header = ["img_filename", "y", "split", nuisance, "group", "split_name", "label_name"]
        yield (
            f"{folder}/metadata.csv",
            csv_lines(chain([[*header, f"{nuisance}_name"]], self._rows(contents, paths))),
        )
        yield f"{folder}/names.csv", meanings(contents, nuisance)
        about = f"{manifest.name} {manifest.version}, {contents.about}, content {manifest.content_id}"
        yield f"{folder}/RELEASE_v{folder.rpartition('_v')[2]}.txt", [about]

    def _rows(self, contents: Contents, paths: Paths) -> Iterator[Sequence[Any]]:
        splits = split_numbers(contents.sets)
        for entry, (path,) in zip(contents.entries, paths, strict=True):
            group = entry.label * len(contents.domains) + entry.domain
            numbers = [entry.label, splits[entry.set], entry.domain, group]
            names = [entry.set, contents.classes[entry.label].name, contents.domains[entry.domain].name]
            yield from [[path.partition("/")[2], *numbers, *names]] * entry.times

    def read(self, folder: Path, record: Record) -> Iterator[Found]:
        inner = _folder(record.dataset, record.version)
        for row in csv_rows(folder / inner / "metadata.csv"):
            label = record.class_to_label[int(row["y"])]["name"]
            domain = record.domain_to_nuisance[int(row[record.nuisance])]["name"]
            yield Found(row["split_name"], f"{inner}/{row['img_filename']}", label, domain)

    def check(self, contents: Contents) -> list[str]:
        contents.check_domains("wilds")
        return []


def _folder(name: str, version: str) -> str:
    """WILDS's own name for a dataset's folder; its versions have two numbers."""
    return f"{name}_v{'.'.join(version.split('.')[:2])}"


class BalancingGroups(Layout):
    """One CSV file with numbers."""

    about = "metadata_<name>.csv with id, filename, split, y, a: BalancingGroups, SMA"

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        header = ["id", "filename", "split", "y", "a"]
        rows = ([number, *row] for number, row in enumerate(self._rows(contents, paths)))
        yield f"metadata_{contents.manifest.name}.csv", csv_lines(chain([header], rows))
        yield "names.csv", meanings(contents, "a")

    def _rows(self, contents: Contents, paths: Paths) -> Iterator[Sequence[Any]]:
        splits = split_numbers(contents.sets)
        for entry, (path,) in zip(contents.entries, paths, strict=True):
            row = [path.removeprefix("images/"), splits[entry.set], entry.label, entry.domain]
            yield from [row] * entry.times

    def read(self, folder: Path, record: Record) -> Iterator[Found]:
        for row in csv_rows(folder / f"metadata_{record.dataset}.csv"):
            label = record.class_to_label[int(row["y"])]["name"]
            domain = record.domain_to_nuisance[int(row["a"])]["name"]
            yield Found(list(SPLITS)[int(row["split"])], f"images/{row['filename']}", label, domain)

    def check(self, contents: Contents) -> list[str]:
        contents.check_domains("balancinggroups")
        others = [name for name in contents.sets if name not in SPLITS]
        if others:
            raise InputError(
                f"balancinggroups knows the splits train, validation and test, and the task has "
                f"{', '.join(others)}: say which set is which, as in --sets train={others[0]}"
            )
        notes = []
        for name, numbers in contents.of_sets():
            entries = [contents.entries[number] for number in numbers]
            for column, wanted, found in (
                ("y", contents.classes, {one.label for one in entries}),
                ("a", contents.domains, {one.domain for one in entries}),
            ):
                if len(found) < len(wanted):
                    notes.append(
                        f"{name} has {len(found)} of {len(wanted)} values of {column}: code that counts "
                        "the values of each split, as the paper's does, cannot read it; use names.csv"
                    )
        return notes
