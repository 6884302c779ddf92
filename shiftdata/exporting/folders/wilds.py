"""`<name>_v1.0/metadata.csv` and images: what a subclass of WILDSDataset reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shiftdata.exporting.folders.contents import Contents, Entry
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
        yield f"{folder}/metadata.csv", csv_lines([*header, f"{nuisance}_name"], _rows(contents, paths))
        yield f"{folder}/names.csv", meanings(contents, nuisance)
        about = f"{manifest.name} {manifest.version}, {contents.about}, content {manifest.content_id}"
        yield f"{folder}/RELEASE_v{_version(manifest.version)}.txt", [about]

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
    return f"{name}_v{_version(version)}"


def _version(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _rows(contents: Contents, paths: Paths) -> Iterator[Sequence[Any]]:
    splits = split_numbers(contents.sets)
    for entry, (path,) in zip(contents.entries, paths, strict=True):
        group = entry.label * len(contents.domains) + entry.domain
        numbers = [entry.label, splits[entry.set], entry.domain, group]
        names = [entry.set, contents.classes[entry.label].name, contents.domains[entry.domain].name]
        yield from [[path.partition("/")[2], *numbers, *names]] * entry.times
