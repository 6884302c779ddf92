"""`<set>.txt` with `path label` lines: TLlib, DomainBed-v2, NICO++."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from shiftdata.exporting.folders.layout import Found, Layout, Texts, once_by_class
from shiftdata.exporting.folders.names import folder_names
from shiftdata.exporting.folders.plan import Name, Plan
from shiftdata.exporting.folders.record import Record

#: What readers of a list a domain call the set.
PHASES = {"validation": "val"}


def _texts(plan: Plan, paths: Sequence[Sequence[str]]) -> Texts:
    yield "classes.txt", _names(plan.classes)
    if plan.domains:
        yield "domains.txt", _names(plan.domains)
    names = _list_names(plan.sets.values(), [one.folder for one in plan.domains])
    for name, numbers in plan.of_sets():
        yield f"{plan.sets[name]}.txt", _lines(plan, paths, numbers)
        for at in range(len(plan.domains)):
            mine = [number for number in numbers if plan.entries[number].domain == at]
            if mine:
                yield names[plan.sets[name], at], _lines(plan, paths, mine)


def _names(names: Sequence[Name]) -> list[str]:
    """Each name on a line of its own."""
    return [" ".join(one.name.split()) for one in names]


def _lines(plan: Plan, paths: Sequence[Sequence[str]], numbers: Sequence[int]) -> Iterator[str]:
    for number in numbers:
        entry = plan.entries[number]
        yield from [f"{paths[number][0]} {entry.label}"] * entry.times


def _list_names(sets: Iterable[str], domains: Sequence[str]) -> dict[tuple[str, int], str]:
    """The list of each set and domain, `<domain>_<set>.txt`; no two alike, whatever the names."""
    pairs = [(name, at) for name in sets for at in range(len(domains))]
    found = folder_names([f"{domains[at]}_{PHASES.get(name, name)}" for name, at in pairs])
    return {pair: f"lists/{name}.txt" for pair, name in zip(pairs, found, strict=True)}


def _read(folder: Path, record: Record) -> Iterator[Found]:
    domains = [told["folder"] for told in record.domain_to_nuisance]
    names = _list_names([told["folder"] for told in record.sets.values()], domains)
    for name, told in record.sets.items():
        of_domain: dict[str, str] = {}
        for at, domain in enumerate(record.domain_to_nuisance):
            path = folder / names[told["folder"], at]
            if path.is_file():
                of_domain |= dict.fromkeys((image for image, _ in _pairs(path)), domain["name"])
        for image, number in _pairs(folder / f"{told['folder']}.txt"):
            label = record.class_to_label[int(number)]["name"]
            yield Found(name, image, label, of_domain.get(image, ""))


def _pairs(path: Path) -> list[tuple[str, str]]:
    """The lines of a list, path and label."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(image, label) for image, _, label in (line.rpartition(" ") for line in lines)]


def _check(plan: Plan) -> list[str]:
    return []


LISTS = Layout(
    stems=once_by_class,
    texts=_texts,
    read=_read,
    check=_check,
    in_folders=False,
)
