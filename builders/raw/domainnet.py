"""DomainNet: 345 classes in six domains, as the lists of the cleaned version have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from builders.raw.album import Found, Odd, Row
from builders.raw.lists import LISTS, ListedClass, Named, name_of, read_list
from builders.raw.tree import Tree
from shiftdata.errors import InputError

CLEANED = ("train", "test")
#: DomainBed's list of what the cleaned version lacks.
DUPLICATES = "domain_net_duplicates.txt"
UNCLEANED = "not in the cleaned version"
UNDECIDED = "neither lists nor duplicates are known: every picture of this domain is taken, twice or not"


@dataclass(frozen=True, kw_only=True)
class DomainNet(ListedClass):
    """`<domain>/<class>/<file>`; `<domain>_train.txt` and `<domain>_test.txt` decide what belongs.

    Without them DomainBed's list of duplicates decides. Without that either, every picture belongs, and that
    is named.
    """

    code_version: ClassVar[int] = 1

    lists: Sequence[str] = (*CLEANED, "")

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every picture of the cleaned version; others are named."""
        cleaned, duplicates = self._cleaned(tree), self._duplicates(tree)
        undecided: set[str] = set()
        for found in super().pictures(tree):
            if not isinstance(found, Row) or found.nuisance is None:
                yield found
            elif found.nuisance in cleaned:
                places = found.more.get(LISTS, {})
                belongs = isinstance(places, dict) and any(name in places for name in CLEANED)
                yield found if belongs else Odd(file=found.file, why=UNCLEANED)
            elif duplicates:
                yield Odd(file=found.file, why=UNCLEANED) if name_of(found) in duplicates else found
            else:
                undecided.add(found.nuisance)
                yield found
        yield from (Odd(file=domain, why=UNDECIDED) for domain in sorted(undecided))

    def _cleaned(self, tree: Tree) -> set[str]:
        """The domains with both of their lists; one without the other is an error."""
        files = self.files(tree)
        for domain in self.domains:
            there = [name for name in CLEANED if (domain, name) in files]
            if len(there) == 1:
                (lacking,) = set(CLEANED) - set(there)
                raise InputError(
                    f"{tree.place} has {files[domain, there[0]]} and no {domain}_{lacking}.txt: the two "
                    "together say which pictures belong; get both, or move the one away"
                )
        return {domain for domain, name in files if name in CLEANED}

    def _duplicates(self, tree: Tree) -> set[Named]:
        """What DomainBed's list names, wherever it lies in the tree."""
        lines = (
            line.path
            for file in tree.files
            if file.rpartition("/")[2].lower() == DUPLICATES
            for line in read_list(tree.read(file))
        )
        placed = ((self.place(path), PurePosixPath(path).name.lower()) for path in lines)
        return {(place.domain, place.label, name) for place, name in placed if place}
