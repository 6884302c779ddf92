"""Make builders/raw/breeds.toml again from the three files of BREEDS' hierarchy.

    python scripts/breeds.py FOLDER             compare
    python scripts/breeds.py FOLDER --write     write it

FOLDER has dataset_class_info.json, class_hierarchy.txt and node_names.txt of the folder
imagenet_class_hierarchy/modified of the repository MadryLab/BREEDS-Benchmarks. Their licence is not stated,
and so they are not here. The sha256 of those that the file was made from:

    be90503d57a001f95e094a81dc4de90772bfc58546ca58061d6474799829afd0  dataset_class_info.json
    039cfaddf9732855b93f7899ba4b5ba6d80f8dbe15cfaad566f575b6c8ce0216  class_hierarchy.txt
    322af45711ed69a7b199f11225bd964c7dae71df3c586498bef2f7c9e031dedb  node_names.txt
"""

from __future__ import annotations

import argparse
import graphlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from builders.raw.imagenet import BREEDS
from shiftdata.errors import InputError

CLASSES, EDGES, NAMES = "dataset_class_info.json", "class_hierarchy.txt", "node_names.txt"
ROOT = "n00001740"


class Cut(NamedTuple):
    """Where a dataset cuts the hierarchy: the nodes at a level below the root, or below an ancestor alone.

    Each takes `classes` of its classes, half of them for the source and half for the target.
    """

    level: int
    classes: int
    below: str = ROOT


class Superclass(NamedTuple):
    """A node, and the numbers of the ImageNet classes of its two sub-populations."""

    node: str
    name: str
    source: tuple[int, ...]
    target: tuple[int, ...]


#: By Santurkar, Tsipras, Mądry: BREEDS, ICLR 2021, table 1; classes are balanced, halves similar ("good").
CUTS: Mapping[str, Cut] = {
    "entity13": Cut(level=3, classes=20),
    "entity30": Cut(level=4, classes=8),
    "living17": Cut(level=5, classes=4, below="n00004258"),
    "nonliving26": Cut(level=5, classes=4, below="n00021939"),
}


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The children of each node, as far as they lead to a class; `numbers` are those of the classes."""

    numbers: Mapping[str, int]
    names: Mapping[str, str]
    below: Mapping[str, set[str]]

    @classmethod
    def read(cls, folder: Path) -> Hierarchy:
        """Read the authors' three files."""
        lacking = [name for name in (CLASSES, EDGES, NAMES) if not (folder / name).is_file()]
        if lacking:
            raise InputError(f"{folder} has no {lacking[0]}: give the folder with BREEDS' three files")
        classes = json.loads((folder / CLASSES).read_text(encoding="utf-8"))
        numbers = {str(node): int(number) for number, node, _ in classes}
        lines = (folder / NAMES).read_text(encoding="utf-8").splitlines()
        names = dict(line.split("\t", 1) for line in lines if line)
        above: dict[str, set[str]] = defaultdict(set)
        for line in (folder / EDGES).read_text(encoding="utf-8").splitlines():
            if line:
                parent, child = line.split()
                above[child].add(parent)
        below: dict[str, set[str]] = defaultdict(set)
        later = [node for node in numbers if node in above]
        while later:
            node = later.pop()
            for parent in above.get(node, ()):
                if parent not in below:
                    later.append(parent)
                below[parent].add(node)
        return cls(numbers=numbers, names=names, below=below)

    @cached_property
    def levels(self) -> Mapping[str, int]:
        """The distance of each node from the root, by the longest way."""
        levels = {ROOT: 0}
        for node in reversed([*graphlib.TopologicalSorter(self.below).static_order()]):
            for child in self.below.get(node, ()) if node in levels else ():
                levels[child] = max(levels.get(child, 0), levels[node] + 1)
        return levels

    def classes(self, node: str) -> list[str]:
        """The classes at or below a node, sorted; those below a class are part of it."""
        if node in self.numbers:
            return [node]
        return sorted({leaf for child in self.below.get(node, ()) for leaf in self.classes(child)})

    def descendants(self, node: str) -> set[str]:
        """A node and all nodes below it."""
        return {node}.union(*(self.descendants(child) for child in self.below.get(node, ())))

    def superclasses(self, cut: Cut) -> list[Superclass]:
        """The superclasses of a cut that have as many classes as it takes, in the order of their nodes."""
        return [
            self._superclass(node, cut.classes // 2)
            for node in sorted(self.descendants(cut.below))
            if self.levels.get(node) == cut.level and len(self.classes(node)) >= cut.classes
        ]

    def _superclass(self, node: str, half: int) -> Superclass:
        source, target = self._halves(node, half)
        name = self.names.get(node, node).split(",")[0].strip().replace(" ", "_")
        numbers = (tuple(sorted(self.numbers[leaf] for leaf in leaves)) for leaves in (source, target))
        return Superclass(node, name, *numbers)

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
        return source, target


def text_of(tables: Mapping[str, Sequence[Superclass]]) -> Iterator[str]:
    """The lines of `breeds.toml`."""
    yield "# Made by scripts/breeds.py from the hierarchy of BREEDS (Santurkar, Tsipras, Mądry, ICLR 2021):"
    yield "# numbers of ImageNet classes of each superclass, of the source and of the target sub-population."
    for name, superclasses in tables.items():
        for superclass in superclasses:
            yield f"\n[[{name}]]"
            yield f'node = "{superclass.node}"'
            yield f'name = "{superclass.name}"'
            yield f"source = {list(superclass.source)}"
            yield f"target = {list(superclass.target)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the file")
    given = parser.parse_args()
    try:
        hierarchy = Hierarchy.read(given.folder)
        tables = {name: hierarchy.superclasses(cut) for name, cut in CUTS.items()}
    except (InputError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    text = "\n".join(text_of(tables)) + "\n"
    for name, superclasses in tables.items():
        print(f"{name}: {len(superclasses)} superclasses")
    if given.write:
        BREEDS.write_text(text, encoding="utf-8")
        return 0
    same = text == BREEDS.read_text(encoding="utf-8")
    print(f"{BREEDS.name} is {'the same' if same else 'another: --write'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
