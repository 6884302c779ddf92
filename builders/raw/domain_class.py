"""The layout of most domain datasets: `<domain>/<class>/<file>`, somewhere in the tree."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import PurePosixPath
from typing import ClassVar, NamedTuple

from builders.albums.folder import ENDINGS
from builders.raw.album import Found, Odd, Row
from builders.raw.tree import Tree
from shiftdata.errors import InputError

#: With so many misplaced pictures to one in its place, the tree is of another dataset.
MOST_MISPLACED = 2
NO_PICTURE = "missing: the tree has no picture of this domain"
MISPLACED = "not in a folder of a class in a folder of a domain"


class Place(NamedTuple):
    """Of a picture the folder of its domain, and which domain and label it has."""

    folder: str
    domain: str
    label: str


@dataclass(frozen=True, kw_only=True)
class DomainClass:
    """Folders of domains with folders of classes.

    `domains` and `labels` give each name and its other spellings; case, spaces, `_` and `-` do not count.
    `between` are folders that may stand between the two, such as `images`; `parts` those among which a
    domain's pictures are shared out, such as `train`. A domain may lie at any depth; one that lies at two
    places, such as unpacked beside packed under another name, must be the same at both. `complete` says
    that every domain has every class, so that a lack is named.
    """

    code_version: ClassVar[int] = 1

    domains: Mapping[str, Sequence[str]]
    labels: Mapping[str, Sequence[str]]
    between: Sequence[str] = field(default=())
    parts: Sequence[str] = field(default=())
    complete: bool = True

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture, then what is missing.

        An exact copy of a domain is left out. Of two others it is not known which is right: an error.
        """
        found = list(self.pictures(tree))
        rows = [one for one in found if isinstance(one, Row)]
        copies = self._copies(tree, rows)
        for one in found:
            place = self.place(one.file) if copies and isinstance(one, Row) else None
            if place is None or place.folder not in copies:
                yield one
        yield from (Odd(file=folder, why="an exact copy of another folder of the tree") for folder in copies)
        misplaced = [one.file for one in found if isinstance(one, Odd) and one.why == MISPLACED]
        if rows and len(misplaced) > MOST_MISPLACED * len(rows):
            raise InputError(
                f"{tree.place} seems to be another dataset, or several: {len(rows):,} pictures are in a "
                f"folder of {', '.join(list(self.labels)[:3])}, .. in one of {', '.join(self.domains)}, and "
                f"{len(misplaced):,} are not, such as {misplaced[0]}: give the folder of this dataset alone"
            )
        yield from self._missing(Counter((row.nuisance or "", row.label) for row in rows))

    def _copies(self, tree: Tree, rows: Sequence[Row]) -> set[str]:
        """The folders of domains that are exact copies of others; raises an error for other copies."""
        domains: dict[str, dict[str, set[tuple[str, str, int]]]] = defaultdict(lambda: defaultdict(set))
        classes: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            if place := self.place(row.file):
                above, _, name = row.file.rpartition("/")
                domains[place.domain][place.folder].add((place.label, name, tree.files[row.file]))
                classes[f"{place.domain} / {place.label} in {place.folder}"].add(above.rpartition("/")[2])
        copies: set[str] = set()
        for domain, folders in domains.items():
            first, *others = sorted(folders)
            if any(folders[other] != folders[first] for other in others):
                raise _twice(tree, domain, sorted(folders))
            copies |= {*others}
        for what, names in classes.items():
            if len(names) > 1:
                raise _twice(tree, what, sorted(names))
        return copies

    def _missing(self, groups: Counter[tuple[str, str]]) -> Iterator[Odd]:
        there = {domain for domain, _ in groups}
        for domain in self.domains:
            if domain not in there:
                yield Odd(file=domain, why=NO_PICTURE)
                continue
            for label in self.labels if self.complete else ():
                if not groups[domain, label]:
                    yield Odd(
                        file=f"{domain}/{label}", why="missing: this domain has no picture of the class"
                    )

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every file in a folder of a class in a folder of a domain, and every picture elsewhere."""
        for file in tree.files:
            if place := self.place(file):
                yield self.row(file, place.label, place.domain)
            elif file.lower().endswith(ENDINGS):
                yield Odd(file=file, why=MISPLACED)

    @cached_property
    def _spellings(self) -> tuple[Mapping[str, str], Mapping[str, str], frozenset[str], frozenset[str]]:
        between, parts = (frozenset(map(plain, names)) for names in (self.between, self.parts))
        return _by_spelling(self.domains), _by_spelling(self.labels), between, parts

    def place(self, file: str) -> Place | None:
        """What the folders of a path say, in the tree or in a list; None where they say nothing."""
        above = file.rpartition("/")[0]
        if above not in self._places:
            self._places[above] = self._place(PurePosixPath(above).parts)
        return self._places[above]

    @cached_property
    def _places(self) -> dict[str, Place | None]:
        """What is known of folders: they are few, and their files many."""
        return {}

    def _place(self, folders: Sequence[str]) -> Place | None:
        domains, labels, between, parts = self._spellings
        for depth, folder in enumerate(folders):
            if (domain := domains.get(plain(folder))) is None:
                continue
            levels = folders[depth + 1 : -1]
            label = labels.get(plain(folders[-1])) if folders[depth + 1 :] else None
            if label is not None and all(plain(one) in between | parts for one in levels):
                whole = [one for one in levels if plain(one) not in parts]
                return Place("/".join([*folders[: depth + 1], *whole]), domain, label)
        return None

    def row(self, file: str, label: str, domain: str) -> Found:
        """What a file in its place is."""
        if not file.lower().endswith(ENDINGS):
            return Odd(file=file, why="its name does not end as that of a picture")
        return Row(file=file, label=label, nuisance=domain, origin=self.origin(file, label, domain))

    def origin(self, file: str, label: str, domain: str) -> str | None:
        """What a picture was made from, where others were made from it too."""
        return None


def _twice(tree: Tree, what: str, folders: Sequence[str]) -> InputError:
    return InputError(
        f"{tree.place} has {what} {len(folders)} times, and not the same: {', '.join(folders)}. "
        "Move one of them away, or give the folder above the right one"
    )


def spelled(*names: str, **spellings: Sequence[str]) -> dict[str, Sequence[str]]:
    """Names, each with its other spellings.

    >>> spelled("art", photo=["photos"])
    {'art': (), 'photo': ['photos']}
    """
    return dict.fromkeys(names, ()) | spellings


@cache
def plain(name: str) -> str:
    """A name without case, spaces, `_` and `-`.

    >>> plain("Real World") == plain("real_world") == plain("RealWorld")
    True
    """
    return re.sub(r"[\s_-]+", "", name).casefold()


def _by_spelling(names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {plain(one): name for name, others in names.items() for one in (name, *others)}
