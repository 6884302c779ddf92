"""`metadata_<name>.csv` with id, filename, split, y, a: what BalancingGroups and its followers read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shiftdata.errors import InputError
from shiftdata.exporting.folders.contents import Contents
from shiftdata.exporting.folders.layout import (
    Found,
    Layout,
    Paths,
    Texts,
    csv_lines,
    csv_rows,
    meanings,
    split_numbers,
)
from shiftdata.exporting.folders.record import Record
from shiftdata.format.schema import SPLITS

IMAGES = "images"  # file names in the CSV are relative to it


class BalancingGroups(Layout):
    """One CSV file with numbers."""

    about = "metadata_<name>.csv with id, filename, split, y, a: BalancingGroups, SMA"

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        header = ["id", "filename", "split", "y", "a"]
        yield f"metadata_{contents.manifest.name}.csv", csv_lines(header, _rows(contents, paths))
        yield "names.csv", meanings(contents, "a")

    def read(self, folder: Path, record: Record) -> Iterator[Found]:
        for row in csv_rows(folder / f"metadata_{record.dataset}.csv"):
            label = record.class_to_label[int(row["y"])]["name"]
            domain = record.domain_to_nuisance[int(row["a"])]["name"]
            yield Found(list(SPLITS)[int(row["split"])], f"{IMAGES}/{row['filename']}", label, domain)

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


def _rows(contents: Contents, paths: Paths) -> Iterator[Sequence[Any]]:
    splits, number = split_numbers(contents.sets), 0
    for entry, (path,) in zip(contents.entries, paths, strict=True):
        for _ in range(entry.times):
            yield [number, path.removeprefix(f"{IMAGES}/"), splits[entry.set], entry.label, entry.domain]
            number += 1
