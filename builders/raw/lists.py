"""List files of the field: a line is the path of a picture and, after the last space, a number.

Paths begin wherever their author's disk had them, lines end as any system ends them, numbers count from 0 or
from 1: a line means the picture whose domain, class and name its path ends in.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

from builders.raw.found import Odd
from builders.raw.records import decoded
from builders.raw.tree import Tree
from shiftdata.errors import InputError

LINE_END = re.compile(r"\r\n|\r|\n")
NUMBERED = re.compile(r"(.*\S)[ \t]+(-?\d+)")
#: What a row says of the lists that name it, in `params`: of each list the place in it, from 0.
LISTS = "lists"
FOREIGN = "names no class of a domain: a list of another dataset, or a placeholder that Git LFS left"

#: A picture as a list names it: domain, label, and the name of its file in lower case.
Named: TypeAlias = tuple[str, str, str]


class Lists(NamedTuple):
    """The lists of one tree.

    `places` are of each picture its places in the lists that name it, `lines` the line that names it last,
    `read` the lists of each domain.
    """

    places: dict[Named, dict[str, int]]
    lines: dict[Named, Odd]
    read: dict[str, set[str]]
    odd: list[Odd]


def read_list(data: bytes) -> Iterator[tuple[str, int | None]]:
    r"""The paths in the lines of a list file, with their numbers.

    >>> list(read_list(b"cat/a 1.jpg\r\nC:\\x\\cat\\b c.jpg 7\r\n"))
    [('cat/a 1.jpg', None), ('C:/x/cat/b c.jpg', 7)]
    """
    for line in filter(None, map(str.strip, LINE_END.split(decoded(data)))):
        numbered = NUMBERED.fullmatch(line)
        path, number = (numbered[1], int(numbered[2])) if numbered else (line, None)
        yield path.replace("\\", "/"), number


def read_lists(
    tree: Tree,
    files: Iterable[tuple[str, str, str]],
    picture: Callable[[str, str], Named | None],
) -> Lists:
    """The list files of a tree, given as domain, list and file; `picture` is that of a domain and a path."""
    lists = Lists(defaultdict(dict), {}, defaultdict(set), [])
    earlier: dict[tuple[str, str], tuple[str, list[Named | None]]] = {}
    for domain, name, file in files:
        paths = [path for path, _ in read_list(tree.read(file))]
        pictures = [picture(domain, path) for path in paths]
        if not any(pictures):
            lists.odd.append(Odd(file=file, why=FOREIGN))
            continue
        first, same = earlier.setdefault((domain, name), (file, pictures))
        if pictures != same:
            raise InputError(
                f"{tree.place} has two lists {file.rpartition('/')[2]} with other pictures, {first} and "
                f"{file}: move one of them away"
            )
        if first != file:
            continue
        lists.read[domain].add(name)
        for place, (path, named) in enumerate(zip(paths, pictures, strict=True)):
            if named is None or name in lists.places[named]:
                why = "names a picture a second time" if named else "names no class of a domain"
                lists.odd.append(Odd(file=f"{file}, line {place + 1}", why=why))
            else:
                lists.places[named][name] = place
                why = f"listed in {file.rpartition('/')[2]}, and not there"
                lists.lines[named] = Odd(file=path, why=why)
    return lists


def spelled(names: Iterable[str], spellings: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Names by each of their spellings, without what `plain` leaves out."""
    return {plain(text): name for name in names for text in (name, *spellings.get(name, ()))}


@cache
def plain(name: str) -> str:
    """A name without case, spaces, `_` and `-`.

    >>> plain("Real World") == plain("real_world") == plain("RealWorld")
    True
    """
    return re.sub(r"[\s_-]+", "", name).casefold()
