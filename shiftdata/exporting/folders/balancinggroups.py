"""`metadata_<name>.csv` with id, filename, split, y, a: what BalancingGroups and its followers read."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shiftdata.errors import InputError
from shiftdata.exporting.folders.layout import Found, Layout, Texts, csv_lines, once_by_class
from shiftdata.exporting.folders.numbers import check_domains, meanings, split_numbers
from shiftdata.exporting.folders.plan import Plan
from shiftdata.exporting.folders.record import Record
from shiftdata.format.schema import SPLITS

IMAGES = "images"  # file names in the CSV are relative to it


def _texts(plan: Plan, paths: Sequence[Sequence[str]]) -> Texts:
    header = ["id", "filename", "split", "y", "a"]
    yield f"metadata_{plan.manifest.name}.csv", csv_lines(header, _rows(plan, paths))
    yield "names.csv", meanings(plan, "a")


def _rows(plan: Plan, paths: Sequence[Sequence[str]]) -> Iterator[Sequence[Any]]:
    splits, number = split_numbers(plan.sets), 0
    for entry, (path,) in zip(plan.entries, paths, strict=True):
        for _ in range(entry.times):
            yield [number, path.removeprefix(f"{IMAGES}/"), splits[entry.set], entry.label, entry.domain]
            number += 1


def _read(folder: Path, record: Record) -> Iterator[Found]:
    with (folder / f"metadata_{record.dataset}.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            label = record.class_to_label[int(row["y"])]["name"]
            domain = record.domain_to_nuisance[int(row["a"])]["name"]
            yield Found(list(SPLITS)[int(row["split"])], f"{IMAGES}/{row['filename']}", label, domain)


def _check(plan: Plan) -> list[str]:
    check_domains(plan, "balancinggroups")
    others = [name for name in plan.sets if name not in SPLITS]
    if others:
        raise InputError(
            f"balancinggroups knows the splits train, validation and test, and the task has "
            f"{', '.join(others)}: say which set is which, as in --sets train={others[0]}"
        )
    notes = []
    for name, numbers in plan.of_sets():
        entries = [plan.entries[number] for number in numbers]
        for what, wanted, found in (
            ("y", plan.classes, {one.label for one in entries}),
            ("a", plan.domains, {one.domain for one in entries}),
        ):
            if len(found) < len(wanted):
                notes.append(
                    f"{name} has {len(found)} of {len(wanted)} values of {what}: code that counts values by "
                    "split, as that of the paper, cannot read it; code that takes names.csv can"
                )
    return notes


BALANCINGGROUPS = Layout(
    stems=once_by_class,
    texts=_texts,
    read=_read,
    check=_check,
    in_folders=False,
)
