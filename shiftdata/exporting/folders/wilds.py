"""`<name>_v1.0/metadata.csv` and images: what a subclass of WILDSDataset reads."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shiftdata.exporting.folders.layout import Found, Layout, Texts, csv_lines, once_by_class
from shiftdata.exporting.folders.numbers import check_domains, meanings, split_numbers
from shiftdata.exporting.folders.plan import Entry, Plan
from shiftdata.exporting.folders.record import Record


def _folder(name: str, version: str) -> str:
    """WILDS's own name for a dataset's folder; its versions have two numbers."""
    return f"{name}_v{_version(version)}"


def _version(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _stems(plan: Plan, entry: Entry) -> Sequence[str]:
    (stem,) = once_by_class(plan, entry)
    return [f"{_folder(plan.manifest.name, plan.manifest.version)}/{stem}"]


def _texts(plan: Plan, paths: Sequence[Sequence[str]]) -> Texts:
    folder = _folder(plan.manifest.name, plan.manifest.version)
    header = ["img_filename", "y", "split", plan.nuisance, "group", "split_name", "label_name"]
    yield f"{folder}/metadata.csv", csv_lines([*header, f"{plan.nuisance}_name"], _rows(plan, paths))
    yield f"{folder}/names.csv", meanings(plan, plan.nuisance)
    told = f"{plan.manifest.name} {plan.manifest.version}, {plan.told}, content {plan.manifest.content_id}"
    yield f"{folder}/RELEASE_v{_version(plan.manifest.version)}.txt", [told]


def _rows(plan: Plan, paths: Sequence[Sequence[str]]) -> Iterator[Sequence[Any]]:
    splits = split_numbers(plan.sets)
    for entry, (path,) in zip(plan.entries, paths, strict=True):
        row = [
            path.partition("/")[2],
            entry.label,
            splits[entry.set],
            entry.domain,
            plan.group_of(entry),
            entry.set,
            plan.classes[entry.label].name,
            plan.domains[entry.domain].name,
        ]
        yield from [row] * entry.times


def _read(folder: Path, record: Record) -> Iterator[Found]:
    inner = _folder(record.dataset, record.version)
    with (folder / inner / "metadata.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            label = record.class_to_label[int(row["y"])]["name"]
            domain = record.domain_to_nuisance[int(row[record.nuisance])]["name"]
            yield Found(row["split_name"], f"{inner}/{row['img_filename']}", label, domain)


def _check(plan: Plan) -> list[str]:
    check_domains(plan, "wilds")
    return []


WILDS = Layout(
    stems=_stems,
    texts=_texts,
    read=_read,
    check=_check,
    in_folders=False,
)
