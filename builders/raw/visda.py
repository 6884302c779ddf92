"""VisDA-2017: synthetic pictures for training, photographs for validation and test."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar, TypeAlias

from builders.raw.album import Found, Odd, Row
from builders.raw.domain_class import MISPLACED, DomainClass, Place
from builders.raw.tree import Tree

TEST = "test"
TRUNK = "trunk"
LIST = "image_list"

#: Domain, label and name of a file; of the flat test no label.
Name: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Visda(DomainClass):
    """`{train,validation}/<class>/<file>` and `test/trunk01/<file>`, whose classes a list gives.

    The test pictures may also lie in folders of classes, as RLSbench moves them. The list of the test is any
    `image_list*.txt` with lines `trunk01/<file> <number of the class>`.
    """

    code_version: ClassVar[int] = 1

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every picture, one of the flat test by its list; then what lists name and is not there."""
        listed = self._listed(tree)
        names: set[Name] = set()
        flat: list[str] = []
        for found in super().pictures(tree):
            path = PurePosixPath(found.file)
            if isinstance(found, Odd) and found.why == MISPLACED and _is_test(path):
                flat.append(found.file)
                continue
            if isinstance(found, Row):
                names |= {
                    (found.nuisance or "", found.label, path.name),
                    (found.nuisance or "", "", path.name),
                }
            yield found
        for file in flat:
            one = (TEST, "", PurePosixPath(file).name)
            again = one in names
            yield (
                Odd(file=file, why="also in a folder of a class") if again else self._flat(file, listed[one])
            )
            names.add(one)
        there = {domain for domain, *_ in names}
        for one in listed:
            if one not in names and one[0] in there:
                yield Odd(file="/".join(filter(None, one)), why=f"listed in {LIST}.txt, and not there")

    def _flat(self, file: str, numbers: set[str]) -> Found:
        """A file of the flat test, and the numbers that lists give it."""
        labels = list(self.labels)
        number = int(next(iter(numbers))) if len(numbers) == 1 and all(map(str.isdecimal, numbers)) else -1
        if 0 <= number < len(labels):
            return Row(file=file, label=labels[number], nuisance=TEST)
        if not numbers:
            return Odd(file=file, why=f"its class is not known: no {LIST}.txt lists it")
        given = " and ".join(sorted(numbers))
        return Odd(file=file, why=f"its class is not known: {LIST}.txt has not one of 0 to 11 ({given})")

    def _listed(self, tree: Tree) -> dict[Name, set[str]]:
        """What lists name, and the numbers that they give."""
        numbers: dict[Name, set[str]] = defaultdict(set)
        for file in tree.files:
            at = PurePosixPath(file)
            if not at.name.lower().startswith(LIST) or at.suffix.lower() != ".txt":
                continue
            for line in tree.read(file).decode("utf-8-sig", errors="replace").splitlines():
                path, _, number = line.strip().replace("\\", "/").rpartition(" ")
                if not (one := PurePosixPath(path.strip())).name:
                    continue
                place = self.place(str(at.parent / one))
                if _is_test(one) or (place is None and _is_test(at)):
                    place = Place("", TEST, "")
                if place is not None:
                    numbers[place.domain, place.label, one.name].add(number)
        return numbers

    def origin(self, file: str, label: str, domain: str) -> str | None:
        """The object that a synthetic picture shows: `<section>_<object>_<three angles>`."""
        words = PurePosixPath(file).stem.split("_")[1:-3]
        return "_".join(words) if domain == "train" and words else None


def _is_test(path: PurePosixPath) -> bool:
    folders = [folder.lower() for folder in path.parts[:-1]]
    return TEST in folders or any(folder.startswith(TRUNK) for folder in folders)
