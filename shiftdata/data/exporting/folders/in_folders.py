"""Layouts whose readers take labels from folders: ImageFolder and DomainBed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from shiftdata.data.exporting.folders.contents import Contents, Entry
from shiftdata.data.exporting.folders.layout import Found, Layout, Paths, Texts, copies, image_files
from shiftdata.data.exporting.folders.record import Record
from shiftdata.data.format.paths import README
from shiftdata.errors import InputError


class ImageFolder(Layout):
    """One folder per set and class."""

    about = "<set>/<label>/<key>.jpg: torchvision's ImageFolder, `datasets`"
    in_folders = True

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        folder = f"{contents.sets[entry.set]}/{contents.classes[entry.label].folder}"
        return copies(f"{folder}/{entry.key}", entry.times)

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        yield README, _readme(contents)

    def read(self, folder: Path, record: Record) -> Iterator[Found]:
        sets = {one["folder"]: name for name, one in record.sets.items()}
        labels = {one["folder"]: one["name"] for one in record.class_to_label}
        for parts in image_files(folder, depth=2):
            at, label = parts[:2]
            yield Found(sets.get(at, at), "/".join(parts), labels.get(label, label), None)

    def check(self, contents: Contents) -> list[str]:
        notes = []
        for name, numbers in contents.of_sets():
            present = {contents.entries[number].label for number in numbers}
            if len(present) < len(contents.classes):
                notes.append(
                    f"{name} has {len(present)} of {len(contents.classes)} classes, and torchvision's "
                    "ImageFolder numbers those it finds: take labels by the folders' names"
                )
        return notes


def _readme(contents: Contents) -> Iterable[str]:
    """`datasets` guesses splits from names, and takes `source_train` or a class `train` for one: this says.

    No metadata.csv: where there is one, `datasets` gives no labels.
    """
    files = [{"split": _split(name), "path": f"{name}/**"} for name in contents.sets.values()]
    configs = [{"config_name": "default", "data_files": files}]
    first = next(iter(contents.sets.values()))
    manifest = contents.manifest
    return [
        "---",
        f"configs: {json.dumps(configs)}",
        "---",
        "",
        f"{manifest.title} ({manifest.name} {manifest.version}), {contents.about}, as folders:",
        "`<set>/<class>/<key>`. `keys.csv` says more about each picture.",
        "",
        '- `datasets.load_dataset("<this folder>")` gives the sets as splits.',
        f'- `torchvision.datasets.ImageFolder("<this folder>/{first}")` reads a set.',
        "",
        "Both number the classes by the sorted names of their folders; `class_to_label` in `shiftdata.json`",
        "has the numbers of the dataset itself.",
    ]


def _split(name: str) -> str:
    """A set as a split of `datasets`, whose names have only letters, digits, dots and underscores."""
    return "".join(one if one.isalnum() or one in "._" else "_" for one in name)


class DomainBed(Layout):
    """One folder per domain and class."""

    about = "<domain>/<label>/<key>.jpg, all sets together: DomainBed"
    in_folders = True

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        folder = f"{contents.domains[entry.domain].folder}/{contents.classes[entry.label].folder}"
        return copies(f"{folder}/{entry.key}", entry.times)

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        for name, numbers in contents.of_sets():
            lines = [
                f"{path} {contents.entries[number].label}" for number in numbers for path in paths[number]
            ]
            yield f"{contents.sets[name]}.txt", lines

    def read(self, folder: Path, record: Record) -> Iterator[Found]:
        labels = {one["folder"]: one["name"] for one in record.class_to_label}
        domains = {one["folder"]: one["name"] for one in record.domain_to_nuisance}
        listed = set()
        for name, one in record.sets.items():
            for line in (folder / f"{one['folder']}.txt").read_text(encoding="utf-8").splitlines():
                path, _, number = line.rpartition(" ")
                domain, label, _ = path.split("/")
                listed.add(path)
                same = labels.get(label) == record.class_to_label[int(number)]["name"]
                yield Found(name, path, labels[label] if same else f"class {number}", domains[domain])
        for parts in image_files(folder, depth=2):
            if "/".join(parts) not in listed:
                yield Found("no set", "/".join(parts), parts[1], parts[0])

    def check(self, contents: Contents) -> list[str]:
        """An ImageFolder numbers the classes that it sees: one that misses some would give wrong labels."""
        contents.check_domains("domainbed")
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
                f"{contents.about} has no row in {len(missing):,} cells of domain and class ({shown}). "
                "DomainBed numbers the classes of each domain by the folders it finds, so its labels would "
                "not agree: choose a task with every class in every domain, or the layout lists or wilds"
            )
        return [
            "DomainBed cuts each domain by itself; the task's own sets are in the lists beside the folders"
        ]
