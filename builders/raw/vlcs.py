"""VLCS: four photographic datasets with five classes in common, in two forms."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import ClassVar

from builders.raw.album import NAMELESS, Found, Odd, Row
from builders.raw.domain_class import DomainClass, plain
from builders.raw.tree import Tree
from shiftdata.threads import available_cores, in_threads

#: Of the second form; `full` has the pictures of the two others once more.
HALVES = ("train", "crossval")
FULL = "full"
DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class Vlcs(DomainClass):
    """`Caltech101/bird/<file>`, or `CALTECH/{train,crossval,full,test}/0/<file>`.

    A picture is named by its bytes, for files have other names in the two forms: equal files are equal rows.
    Some pictures are there under two classes; they are of one origin, and so in one split.
    """

    code_version: ClassVar[int] = 1

    parts: tuple[str, ...] = field(default=(*HALVES, FULL, "test"))

    def pictures(self, tree: Tree) -> Iterator[Found]:
        """Each picture once."""
        rows: list[Row] = []
        for found in super().pictures(tree):
            if isinstance(found, Odd):
                yield found
            else:
                rows.append(found)
        digests = in_threads(lambda row: _digest(tree, row), rows, available_cores())
        known = [
            replace(row, stem=one, origin=one, across=True, more={NAMELESS: True} if _renamed(row) else {})
            for row, one in zip(rows, digests, strict=True)
        ]
        yield from _once(known)


def _renamed(row: Row) -> bool:
    """Whether a file is of the second form, which has other names than that of DomainBed."""
    return PurePosixPath(row.file).parts[-2].isdecimal()


def _once(rows: list[Row]) -> Iterator[Found]:
    """The rows without what `full` has again; what it has beyond them, where a half is missing, counts."""
    domains: dict[str, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for row in rows:
        domains[row.nuisance or ""][plain(PurePosixPath(row.file).parts[-3]) == FULL].append(row)
    for others, full in domains.values():
        halves = [row for row in others if plain(PurePosixPath(row.file).parts[-3]) in HALVES]
        known = {(row.label, row.stem) for row in halves}
        again = [row for row in full if (row.label, row.stem) in known]
        yield from others
        yield from (Odd(file=row.file, why="also in train or crossval") for row in again)
        apart = halves and not again  # perhaps the same pictures in other files
        for row in (row for row in full if (row.label, row.stem) not in known):
            yield Odd(file=row.file, why="no file of train and crossval equals it") if apart else row


def _digest(tree: Tree, row: Row) -> str:
    return hashlib.sha256(tree.read(row.file)).hexdigest()[:DIGITS]
