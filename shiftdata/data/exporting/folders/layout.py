"""What a layout is: where it puts pictures, which lists it writes, and how it is read again."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from shiftdata.data.exporting.folders.contents import Contents, Entry
from shiftdata.data.exporting.folders.record import Record
from shiftdata.data.format.schema import SPLITS
from shiftdata.tables import csv_lines, from_csv_cell

#: Text files by their paths, with their lines.
Texts: TypeAlias = Iterator[tuple[str, Iterable[str]]]
#: The paths of each entry's files.
Paths: TypeAlias = Sequence[Sequence[str]]


class Found(NamedTuple):
    """An example as a layout's own files describe it; without a domain where they do not say."""

    set: str
    path: str
    label: str
    domain: str | None


class Layout(ABC):
    """One layout."""

    #: What is in its folder, and who reads it.
    about: str
    #: Whether readers take what an example is from folders, and number these by their names.
    in_folders = False

    def stems(self, contents: Contents, entry: Entry) -> Sequence[str]:
        """The paths of an entry's files without their ending.

        A row drawn n times has n of them where folders are what is read. Else each image is there once, in
        the folder of its class, and lists say which set it is in, and how often.
        """
        return [f"images/{contents.classes[entry.label].folder}/{entry.key}"]

    @abstractmethod
    def texts(self, contents: Contents, paths: Paths) -> Texts:
        """The lists."""

    @abstractmethod
    def read(self, folder: Path, record: Record) -> Iterator[Found]:
        """What the finished files say, for the round trip."""

    def check(self, contents: Contents) -> list[str]:
        """Notes on what readers of this layout cannot see; an error where they would see it wrongly."""
        return []


def copies(stem: str, count: int) -> list[str]:
    """The path of each copy of a row that was drawn several times. Keys have no dot, so none is another's."""
    return [stem, *(f"{stem}.{number}" for number in range(2, count + 1))]


def csv_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file by column."""
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            yield {name: from_csv_cell(cell) for name, cell in row.items()}


def image_files(folder: Path, depth: int) -> Iterator[tuple[str, ...]]:
    """The parts of the path of every file so many folders deep, in order."""
    for path in sorted(folder.glob("/".join(["*"] * (depth + 1)))):
        if path.is_file():
            yield path.relative_to(folder).parts


def split_numbers(sets: Iterable[str]) -> dict[str, int]:
    """Train, validation and test are 0, 1 and 2, as everywhere; other sets follow in their order.

    >>> split_numbers(["source_train", "test", "train", "target_test"])
    {'source_train': 3, 'test': 2, 'train': 0, 'target_test': 4}
    """
    names = list(sets)
    others = iter(range(len(SPLITS), len(SPLITS) + len(names)))
    return {name: list(SPLITS).index(name) if name in SPLITS else next(others) for name in names}


def meanings(contents: Contents, domain_column: str) -> Iterator[str]:
    """`names.csv`: what each number in a layout's CSV file means, by column."""
    named = [("y", number, one.name) for number, one in enumerate(contents.classes)]
    named += [(domain_column, number, one.name) for number, one in enumerate(contents.domains)]
    named += [("split", number, name) for name, number in split_numbers(contents.sets).items()]
    return csv_lines([["column", "number", "name"], *named])
