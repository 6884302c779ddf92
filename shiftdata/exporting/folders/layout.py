"""What a layout is: where it puts pictures, which lists it writes, and how it is read again."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from shiftdata.exporting.folders.plan import Entry, Plan
from shiftdata.exporting.folders.record import Record

#: Text files by their paths, with their lines.
Texts: TypeAlias = Iterator[tuple[str, Iterable[str]]]


class Found(NamedTuple):
    """An example as a layout's own files tell it; None where they tell nothing."""

    set: str
    path: str
    label: str
    domain: str | None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One layout.

    Args:
        stems: the paths of an entry's files without their ending. A row drawn n times has n of them where
            folders are what is read, else one.
        texts: the lists, from the paths of each entry's files.
        read: what the finished files say, for the round trip.
        check: notes on what readers of this layout cannot see; raises where they would see it wrongly.
        in_folders: whether readers take what an example is from folders, and number these by their names.

    """

    stems: Callable[[Plan, Entry], Sequence[str]]
    texts: Callable[[Plan, Sequence[Sequence[str]]], Texts]
    read: Callable[[Path, Record], Iterator[Found]]
    check: Callable[[Plan], list[str]]
    in_folders: bool


def copies(stem: str, count: int) -> list[str]:
    """The path of each copy of a row that was drawn several times. Keys have no dot, so none is another's."""
    return [stem, *(f"{stem}.{number}" for number in range(2, count + 1))]


def once_by_class(plan: Plan, entry: Entry) -> Sequence[str]:
    """Each image once, in the folder of its class; lists say which set it is in, and how often."""
    return [f"images/{plan.classes[entry.label].folder}/{entry.key}"]


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The lines of a CSV file; None is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="")
    for row in chain([header], rows):
        writer.writerow(row)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def image_files(folder: Path, depth: int) -> Iterator[tuple[str, ...]]:
    """The parts of the path of every file so many folders deep, in order."""
    pattern = "/".join(["*"] * (depth + 1))
    for path in sorted(folder.glob(pattern)):
        if path.is_file():
            yield path.relative_to(folder).parts
