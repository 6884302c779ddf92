"""`<domain>/<label>/<key>.jpg`: one ImageFolder per domain, as DomainBed reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from shiftdata.errors import InputError
from shiftdata.exporting.folders.contents import Contents, Entry
from shiftdata.exporting.folders.layout import Found, Layout, Paths, Texts, copies, image_files
from shiftdata.exporting.folders.record import Record


class DomainBed(Layout):
    """One folder per domain and class."""

    about = "<domain>/<label>/<key>.jpg, all sets together: DomainBed"
    in_folders = True

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        folder = f"{contents.domains[entry.domain].folder}/{contents.classes[entry.label].folder}"
        return copies(f"{folder}/{entry.key}", entry.times)

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        """DomainBed cuts each domain itself: the task's own sets are lists beside the folders."""
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
