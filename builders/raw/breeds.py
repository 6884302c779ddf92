"""BREEDS: superclasses of ImageNet, each with two halves of its classes, out of a hierarchy.

`breeds.toml` beside this file has the four datasets that papers use, so that nobody needs the hierarchy;
`scripts/breeds.py` makes it again from the authors' three files.
"""

from __future__ import annotations

import graphlib
import hashlib
import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from shiftdata.errors import InputError, not_found

CLASSES, EDGES, NAMES = "dataset_class_info.json", "class_hierarchy.txt", "node_names.txt"
ROOT = "n00001740"
TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Where a dataset cuts the hierarchy: the nodes at a level below the root, or below an ancestor alone.

    Each takes `classes` of its classes, half of them for the source and half for the target.
    """

    level: int
    classes: int
    below: str = ""


#: By Santurkar, Tsipras, Mądry: BREEDS, ICLR 2021, table 1; classes are balanced, halves similar ("good").
CUTS: Mapping[str, Cut] = {
    "entity13": Cut(level=3, classes=20),
    "entity30": Cut(level=4, classes=8),
    "living17": Cut(level=5, classes=4, below="n00004258"),
    "nonliving26": Cut(level=5, classes=4, below="n00021939"),
}


@dataclass(frozen=True, kw_only=True)
class Superclass:
    """A node of the hierarchy, and the numbers of the ImageNet classes of its two sub-populations."""

    node: str
    name: str
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Which nodes are below which, as far as they lead to a class; `numbers` are those of the classes."""

    numbers: Mapping[str, int]
    names: Mapping[str, str]
    below: Mapping[str, frozenset[str]]

    @classmethod
    def read(cls, folder: Path) -> Hierarchy:
        """The hierarchy in the authors' three files."""
        for name in (CLASSES, EDGES, NAMES):
            if not (folder / name).is_file():
                raise InputError(f"{folder} has no {name}: give the folder with BREEDS' three files")
        try:
            classes = json.loads((folder / CLASSES).read_text(encoding="utf-8"))
            numbers = {str(node): int(number) for number, node, _ in classes}
        except (ValueError, TypeError) as error:
            raise InputError(f"{folder / CLASSES} is not a list of [number, node, name]: {error}") from error
        if len(numbers) < len(classes) or len({*numbers.values()}) < len(classes):
            raise InputError(f"{folder / CLASSES} has a class or a number twice")
        names = dict(_pairs(folder / NAMES, "\t"))
        below: dict[str, set[str]] = defaultdict(set)
        for parent, child in _pairs(folder / EDGES, None):
            below[parent].add(child)
        return cls(numbers=numbers, names=names, below=_leading_to(numbers, below))

    @cached_property
    def levels(self) -> Mapping[str, int]:
        """How far each node is from the root, by the longest way."""
        if ROOT not in self.below:
            raise InputError(f"no class of the hierarchy is below its root, {ROOT}")
        try:
            upwards = list(graphlib.TopologicalSorter(self.below).static_order())
        except graphlib.CycleError as error:
            raise InputError(f"the hierarchy has a circle: {' - '.join(error.args[1])}") from error
        levels = {ROOT: 0}
        for node in reversed(upwards):
            for child in self.below.get(node, ()) if node in levels else ():
                levels[child] = max(levels.get(child, 0), levels[node] + 1)
        return levels

    def classes(self, node: str) -> list[str]:
        """The classes at or below a node, sorted; what is below a class is part of it."""
        if node in self.numbers:
            return [node]
        return sorted({one for child in self.below.get(node, ()) for one in self.classes(child)})

    def _all_below(self, node: str) -> set[str]:
        return {node}.union(*(self._all_below(child) for child in self.below.get(node, ())))

    def superclasses(self, cut: Cut) -> list[Superclass]:
        """The superclasses of a cut that have as many classes as it takes, in the order of their nodes."""
        if cut.classes < 2 or cut.classes % 2:
            raise InputError(
                f"a superclass is cut into halves: give an even number of classes, not {cut.classes}"
            )
        if cut.below and cut.below not in self.levels:
            raise not_found("node", cut.below, self.levels, "It is to be an ancestor of the superclasses.")
        among = self._all_below(cut.below) if cut.below else self.levels.keys()
        nodes = sorted(node for node in among if self.levels.get(node) == cut.level)
        chosen = [node for node in nodes if len(self.classes(node)) >= cut.classes]
        if not chosen:
            raise InputError(
                f"none of {len(nodes)} nodes at level {cut.level} has {cut.classes} classes: take fewer "
                f"classes, or another level up to {max(self.levels.values())}"
            )
        return [self._superclass(node, cut.classes // 2) for node in chosen]

    def _superclass(self, node: str, half: int) -> Superclass:
        source, target = self._halves(node, half)
        name = self.names.get(node, node).split(",")[0].strip().replace(" ", "_")
        return Superclass(
            node=node,
            name=name,
            source=tuple(sorted(self.numbers[one] for one in source)),
            target=tuple(sorted(self.numbers[one] for one in target)),
        )

    def _halves(self, node: str, half: int) -> tuple[list[str], list[str]]:
        """Two halves of a node's classes that resemble each other: each branch below it is in both.

        Branches go by their number of classes, the largest first. Where a node has one child alone, the
        branches are those of the child. Of a branch the source takes half, rounded down, and the target as
        many of the others as it still needs.
        """
        branches = sorted(self.below[node])
        while len(branches) == 1:
            branches = sorted(self.below.get(branches[0], ()))
        source, target = list[str](), list[str]()
        for classes in sorted(map(self.classes, branches), key=len, reverse=True):
            room = half - len(source)
            first = (1 if room else 0) if len(classes) == 1 else min(len(classes) // 2, room)
            source += classes[:first]
            target += classes[first : first + half - len(target)]
        if not len(source) == len(target) == len({*source, *target}) / 2 == half:
            raise InputError(
                f"the classes below {self.names.get(node, node)} ({node}) cannot be cut into two halves of "
                f"{half}: its {len(branches)} branches give {len(source)} and {len(target)}, or share a class"
            )
        return source, target


def breeds(name: str) -> tuple[Superclass, ...]:
    """The superclasses of one of the four datasets."""
    tables = _tables()
    if name not in tables:
        raise not_found("dataset of BREEDS", name, tables)
    return tables[name]


@cache
def _tables() -> Mapping[str, tuple[Superclass, ...]]:
    read = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        name: tuple(
            Superclass(
                node=one["node"], name=one["name"], source=tuple(one["source"]), target=tuple(one["target"])
            )
            for one in read[name]
        )
        for name in read
    }


def text_of(tables: Mapping[str, Sequence[Superclass]]) -> Iterator[str]:
    """The lines of `breeds.toml`."""
    yield "# Made by scripts/breeds.py from the hierarchy of BREEDS (Santurkar, Tsipras, Mądry, ICLR 2021):"
    yield "# numbers of ImageNet classes of each superclass, of the source and of the target sub-population."
    for name, superclasses in tables.items():
        for one in superclasses:
            yield f"\n[[{name}]]"
            yield f'node = "{one.node}"'
            yield f'name = "{one.name}"'
            yield f"source = {list(one.source)}"
            yield f"target = {list(one.target)}"


def short_hash(superclasses: Sequence[Superclass]) -> str:
    """The hash by which splits are compared: of the numbers of each superclass, of source and target.

    >>> [short_hash(breeds(name)) for name in CUTS]
    ['7b3817680176f06a', '5d5bb0571a75c1c1', 'ea36d04b3a996021', '0b506babeaf7403a']
    """
    numbers = [[list(one.source) for one in superclasses], [list(one.target) for one in superclasses]]
    return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:16]


def _pairs(file: Path, separator: str | None) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        parts = line.strip().split(separator, 1)
        if len(parts) == 2:
            yield parts[0].strip(), parts[1].strip()
        elif line.strip():
            raise InputError(f"{file}, line {number} has one word and not two: {line.strip()[:60]!r}")


def _leading_to(classes: Mapping[str, int], below: Mapping[str, set[str]]) -> Mapping[str, frozenset[str]]:
    """The part of a hierarchy that is above some classes; a class that is not in it is left out."""
    above: dict[str, set[str]] = defaultdict(set)
    for parent, children in below.items():
        for child in children:
            above[child].add(parent)
    kept: dict[str, set[str]] = defaultdict(set)
    later = [node for node in classes if node in above]
    while later:
        node = later.pop()
        for parent in above[node]:
            if not kept[parent]:
                later.append(parent)
            kept[parent].add(node)
    return {node: frozenset(children) for node, children in kept.items()}
