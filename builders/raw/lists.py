"""List files of the field: a line is the path of a picture and, after the last space, a number.

Paths begin wherever their author's disk had them, lines end as any system ends them, numbers count from 0 or
from 1: a line means the picture whose domain, class and name its path ends in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias

from builders.raw.album import Odd, Row
from builders.raw.tree import Tree
from shiftdata.errors import InputError

LINE_END = re.compile(r"\r\n|\r|\n")
NUMBERED = re.compile(r"(.*\S)[ \t]+(-?\d+)")
#: What a row says of the lists that name it, in `params`: of each list the place in it, from 0.
LISTS = "lists"
FOREIGN = "names no class of a domain: a list of another dataset, or a placeholder that Git LFS left"

#: A picture as a list names it: domain, label, and the name of its file in lower case.
Named: TypeAlias = tuple[str, str, str]


class Line(NamedTuple):
    """The path in a line of a list, its number if it has one, and which line it is, from 1."""

    path: str
    number: int | None
    at: int


class Lists(NamedTuple):
    """The lists of one tree: which name a picture, and where in each; which each domain has; what is odd."""

    of: dict[Named, dict[str, int]]
    lines: dict[Named, tuple[str, Line]]
    read: dict[str, list[str]]
    odd: list[Odd]


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


def read_lists(
    tree: Tree,
    files: Iterable[tuple[str, str, str]],
    picture: Callable[[str, str], Named | None],
) -> Lists:
    """The list files of a tree, given as domain, list and file; `picture` is that of a domain and a path."""
    lists = Lists({}, {}, {}, [])
    first: dict[tuple[str, str], tuple[str, list[Named | None]]] = {}
    for domain, name, file in files:
        lines = list(read_list(tree.read(file)))
        named = [picture(domain, line.path) for line in lines]
        if not any(named):
            lists.odd.append(Odd(file=file, why=FOREIGN))
            continue
        earlier, same = first.setdefault((domain, name), (file, named))
        if earlier == file:
            lists.read.setdefault(domain, []).append(name)
            _add(lists, name, file, zip(lines, named, strict=True))
        elif named != same:
            raise InputError(
                f"{tree.place} has two lists {PurePosixPath(file).name} with other pictures, {earlier} and "
                f"{file}: move one of them away"
            )
    return lists


def _add(lists: Lists, name: str, file: str, lines: Iterable[tuple[Line, Named | None]]) -> None:
    for place, (line, picture) in enumerate(lines):
        if picture is None:
            lists.odd.append(Odd(file=f"{file}, line {line.at}", why="names no class of a domain"))
        elif name in lists.of.setdefault(picture, {}):
            lists.odd.append(Odd(file=f"{file}, line {line.at}", why="names a picture a second time"))
        else:
            lists.of[picture][name] = place
            lists.lines[picture] = file, line


def name_of(row: Row) -> Named:
    """The picture of a row, as a list would name it."""
    return row.nuisance or "", row.label, row.file.rpartition("/")[2].lower()


@cache
def plain(name: str) -> str:
    """A name without case, spaces, `_` and `-`.

    >>> plain("Real World") == plain("real_world") == plain("RealWorld")
    True
    """
    return re.sub(r"[\s_-]+", "", name).casefold()
