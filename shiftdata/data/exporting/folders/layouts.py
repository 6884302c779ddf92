"""The layouts by name, and that of lists, `<set>.txt` with `path label` lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from shiftdata.data.exporting.folders.contents import Contents, Name, folder_names
from shiftdata.data.exporting.folders.in_csv import BalancingGroups, Wilds
from shiftdata.data.exporting.folders.in_folders import DomainBed, ImageFolder
from shiftdata.data.exporting.folders.layout import Found, Layout, Paths, Texts
from shiftdata.data.exporting.folders.record import Record
from shiftdata.errors import not_found

#: What readers of one list per domain call the set.
PHASES = {"validation": "val"}


class Lists(Layout):
    """One list per set, and one per set and domain."""

    about = "<set>.txt, lists/<domain>_<set>.txt of `path label` lines: TLlib, DomainBed-v2, NICO++"

    def texts(self, contents: Contents, paths: Paths) -> Texts:
        yield "classes.txt", _names(contents.classes)
        if contents.domains:
            yield "domains.txt", _names(contents.domains)
        names = _list_names(contents.sets.values(), [one.folder for one in contents.domains])
        for name, numbers in contents.of_sets():
            yield f"{contents.sets[name]}.txt", _lines(contents, paths, numbers)
            for at in range(len(contents.domains)):
                mine = [number for number in numbers if contents.entries[number].domain == at]
                if mine:
                    yield names[contents.sets[name], at], _lines(contents, paths, mine)

    def read(self, folder: Path, record: Record) -> Iterator[Found]:
        domains = [one["folder"] for one in record.domain_to_nuisance]
        names = _list_names([one["folder"] for one in record.sets.values()], domains)
        for name, one in record.sets.items():
            of_domain: dict[str, str] = {}
            for at, domain in enumerate(record.domain_to_nuisance):
                path = folder / names[one["folder"], at]
                if path.is_file():
                    of_domain |= dict.fromkeys((image for image, _ in _pairs(path)), domain["name"])
            for image, number in _pairs(folder / f"{one['folder']}.txt"):
                label = record.class_to_label[int(number)]["name"]
                yield Found(name, image, label, of_domain.get(image, ""))


def _names(names: Sequence[Name]) -> list[str]:
    return [" ".join(one.name.split()) for one in names]


def _lines(contents: Contents, paths: Paths, numbers: Sequence[int]) -> Iterator[str]:
    for number in numbers:
        entry = contents.entries[number]
        yield from [f"{paths[number][0]} {entry.label}"] * entry.times


def _list_names(sets: Iterable[str], domains: Sequence[str]) -> dict[tuple[str, int], str]:
    """The list of each set and domain, `<domain>_<set>.txt`; no two alike, whatever the names."""
    pairs = [(name, at) for name in sets for at in range(len(domains))]
    found = folder_names([f"{domains[at]}_{PHASES.get(name, name)}" for name, at in pairs])
    return {pair: f"lists/{name}.txt" for pair, name in zip(pairs, found, strict=True)}


def _pairs(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(image, label) for image, _, label in (line.rpartition(" ") for line in lines)]


LAYOUTS: dict[str, Layout] = {
    "imagefolder": ImageFolder(),
    "wilds": Wilds(),
    "domainbed": DomainBed(),
    "balancinggroups": BalancingGroups(),
    "lists": Lists(),
}


def layout_of(name: str) -> Layout:
    """The layout of that name."""
    if name not in LAYOUTS:
        raise not_found("layout", name, LAYOUTS)
    return LAYOUTS[name]
