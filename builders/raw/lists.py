"""List files of the field: a line is the path of a picture and, after the last space, a number.

Paths begin wherever their author's disk had them, lines end as any system ends them, numbers count from 0 or
from 1: a line means the picture whose domain, class and name its path ends in; its number is only compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import PurePosixPath
from typing import ClassVar, NamedTuple, TypeAlias

from builders.raw.album import Found, Odd, Row
from builders.raw.domain_class import DomainClass, plain
from builders.raw.tree import Tree
from shiftdata.errors import InputError

LINE_END = re.compile(r"\r\n|\r|\n")
NUMBERED = re.compile(r"(.*\S)[ \t]+(-?\d+)")
#: What a row says of the lists that name it, in `params`: of each list the place in it, from 0.
LISTS = "lists"


class Line(NamedTuple):
    """What a line of a list names, its number if it has one, and which line it is, from 1."""

    path: str
    number: int | None
    at: int


def read_list(data: bytes) -> Iterator[Line]:
    r"""The lines of a list file.

    >>> [line[:2] for line in read_list(b"cat/a 1.jpg\r\nC:\\x\\cat\\b c.jpg 7\r\n")]
    [('cat/a 1.jpg', None), ('C:/x/cat/b c.jpg', 7)]
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    for at, line in enumerate(LINE_END.split(text), 1):
        line = line.strip()
        numbered = NUMBERED.fullmatch(line)
        path, number = (numbered[1], int(numbered[2])) if numbered else (line, None)
        if path:
            yield Line(path.replace("\\", "/"), number, at)


#: A picture as a list names it: domain, label, and the name of its file in lower case.
Named: TypeAlias = tuple[str, str, str]


class Lists(NamedTuple):
    """The lists of one tree: which name a picture, and where in each; which each domain has; what is odd."""

    of: dict[Named, dict[str, int]]
    lines: dict[Named, tuple[str, Line]]
    read: dict[str, list[str]]
    odd: list[Odd]


@dataclass(frozen=True, kw_only=True)
class ListedClass(DomainClass):
    """Folders of domains and classes with list files, `<domain>_<list>.txt`, anywhere in the tree.

    `lists` are the lists that are read, by the end of their names; "" is `<domain>.txt`. Each row says in its
    `params` which of them name it.
    """

    code_version: ClassVar[int] = 1

    lists: Sequence[str] = field(default=())

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Every picture, with the lists that name it; then the lines that name no picture."""
        lists = self.read(tree)
        missing = dict(lists.lines)
        for found in super().pictures(tree):
            if isinstance(found, Row):
                named = name_of(found)
                missing.pop(named, None)
                found = self.listed(found, lists.of.get(named, {}), lists)
            yield found
        yield from lists.odd
        for file, line in missing.values():
            yield Odd(file=line.path, why=f"listed in {PurePosixPath(file).name}, and not there")

    def listed(self, row: Row, of: Mapping[str, int], lists: Lists) -> Found:
        """A row with what the lists say of it."""
        return replace(row, more={**row.more, LISTS: dict(sorted(of.items()))}) if of else row

    def read(self, tree: Tree) -> Lists:
        """All lists of a tree."""
        lists = Lists({}, {}, {}, [])
        for (domain, name), file in self.files(tree).items():
            lists.read.setdefault(domain, []).append(name)
            known: dict[int, Counter[str]] = defaultdict(Counter)
            listed: list[tuple[Line, str]] = []
            for place, line in enumerate(read_list(tree.read(file))):
                named, at = self._named(domain, line), f"{file}, line {line.at}"
                if named is None:
                    lists.odd.append(Odd(file=at, why="names no class of a domain"))
                    continue
                if name in lists.of.setdefault(named, {}):
                    lists.odd.append(Odd(file=at, why="names a picture a second time"))
                    continue
                lists.of[named][name] = place
                lists.lines[named] = file, line
                if line.number is not None:
                    known[line.number][named[1]] += 1
                    listed.append((line, named[1]))
            most = {number: labels.most_common(1)[0][0] for number, labels in known.items()}
            lists.odd.extend(
                Odd(file=f"{file}, line {line.at}", why="its number is that of another class in this list")
                for line, label in listed
                if most[line.number or 0] != label
            )
        return lists

    def files(self, tree: Tree) -> dict[tuple[str, str], str]:
        """The list files of a tree by domain and list; copies count once."""
        names = product(self._spellings[0].items(), self.lists)
        known = {spelling + plain(name): (domain, name) for (spelling, domain), name in names}
        found: dict[tuple[str, str], str] = {}
        for file in tree.files:
            if not file.lower().endswith(".txt"):
                continue
            path = PurePosixPath(file)
            list_ = known.get(plain(path.stem))
            if list_ is not None and not self._same(tree, list_[0], found.setdefault(list_, file), file):
                raise InputError(
                    f"{tree.place} has two lists {path.name} with other pictures, {found[list_]} and {file}: "
                    "move one of them away"
                )
        return found

    def _named(self, domain: str, line: Line) -> Named | None:
        """The picture that a line of a domain's list means."""
        place = self.place(line.path) or self.place(f"{domain}/{line.path}")
        return place and (place.domain, place.label, line.path.rpartition("/")[2].lower())

    def _same(self, tree: Tree, domain: str, *files: str) -> bool:
        """Whether two lists name the same pictures in one order, whatever prefixes and numbers they have."""
        one, other = (tree.read(file) for file in files)
        pictures = ([self._named(domain, line) for line in read_list(data)] for data in (one, other))
        return one == other or next(pictures) == next(pictures)


def name_of(row: Row) -> Named:
    """The picture of a row, as a list would name it."""
    return row.nuisance or "", row.label, row.file.rpartition("/")[2].lower()
