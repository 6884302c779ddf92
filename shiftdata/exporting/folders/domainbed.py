"""`<domain>/<label>/<key>.jpg`: one ImageFolder a domain, as DomainBed reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from shiftdata.errors import InputError
from shiftdata.exporting.folders.layout import Found, Layout, Texts, copies, image_files
from shiftdata.exporting.folders.numbers import check_domains
from shiftdata.exporting.folders.plan import Entry, Plan
from shiftdata.exporting.folders.record import Record


def _stems(plan: Plan, entry: Entry) -> Sequence[str]:
    stem = f"{plan.domains[entry.domain].folder}/{plan.classes[entry.label].folder}/{entry.key}"
    return copies(stem, entry.times)


def _texts(plan: Plan, paths: Sequence[Sequence[str]]) -> Texts:
    """DomainBed cuts each domain itself: the task's own sets are lists beside the folders."""
    for name, numbers in plan.of_sets():
        lines = [f"{path} {plan.entries[number].label}" for number in numbers for path in paths[number]]
        yield f"{plan.sets[name]}.txt", lines


def _read(folder: Path, record: Record) -> Iterator[Found]:
    labels = {told["folder"]: told["name"] for told in record.class_to_label}
    domains = {told["folder"]: told["name"] for told in record.domain_to_nuisance}
    listed = set()
    for name, told in record.sets.items():
        for line in (folder / f"{told['folder']}.txt").read_text(encoding="utf-8").splitlines():
            path, _, number = line.rpartition(" ")
            domain, label, _ = path.split("/")
            listed.add(path)
            same = labels.get(label) == record.class_to_label[int(number)]["name"]
            yield Found(name, path, labels[label] if same else f"class {number}", domains[domain])
    for parts in image_files(folder, depth=2):
        if "/".join(parts) not in listed:
            yield Found("no set", "/".join(parts), parts[1], parts[0])


def _check(plan: Plan) -> list[str]:
    """An ImageFolder numbers the classes that it sees: one that misses some would give wrong labels."""
    check_domains(plan, "domainbed")
    present = {(entry.domain, entry.label) for entry in plan.entries}
    missing = [
        f"{domain.name}/{label.name}"
        for at, domain in enumerate(plan.domains)
        for number, label in enumerate(plan.classes)
        if (at, number) not in present
    ]
    if missing:
        shown = ", ".join(missing[:8]) + (" ..." if len(missing) > 8 else "")
        raise InputError(
            f"{plan.told} has no row in {len(missing):,} cells of domain and class ({shown}), and DomainBed "
            "numbers the classes of each domain by the folders it finds: their labels would not agree. "
            "Take a task with every class in every domain, or the layout lists or wilds"
        )
    return ["DomainBed cuts each domain by itself; the task's own sets are in the lists beside the folders"]


DOMAINBED = Layout(
    stems=_stems,
    texts=_texts,
    read=_read,
    check=_check,
    in_folders=True,
)
