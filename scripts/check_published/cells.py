"""Printed numbers with the interval that their rounding leaves, and the tables that they stand in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Printed:
    """A printed number: before it was rounded, it lay within `half` of `value`."""

    paper: str
    table: str
    part: str
    row: str
    column: str
    text: str
    value: float
    half: float
    unit: str

    @property
    def place(self) -> str:
        """Part, row and column, as far as they have names."""
        return ", ".join(name for name in (self.part, self.row, self.column) if name)


@dataclass(frozen=True)
class Sheet:
    """One table: its numbers and its spreads by (part, row, column), in printed order."""

    paper: str
    table: str
    values: dict[tuple[str, str, str], Printed]
    spreads: dict[tuple[str, str, str], Printed]

    @property
    def parts(self) -> list[str]:
        """The blocks of the table."""
        return list(dict.fromkeys(part for part, _, _ in self.values))

    def rows(self, part: str = "") -> list[str]:
        """The rows of one block."""
        return list(dict.fromkeys(row for one, row, _ in self.values if one == part))

    def columns(self, part: str = "") -> list[str]:
        """The columns of one block."""
        return list(dict.fromkeys(column for one, _, column in self.values if one == part))

    def get(self, row: str, column: str, part: str = "") -> Printed | None:
        """The number at a place, None where there is none."""
        return self.values.get((part, row, column))

    def spread(self, row: str, column: str, part: str = "") -> Printed | None:
        """The spread at a place."""
        return self.spreads.get((part, row, column))

    def along(self, part: str, row: str, columns: Sequence[str]) -> list[Printed | None]:
        """A row's numbers in some columns."""
        return [self.get(row, column, part) for column in columns]

    def lines(self) -> Iterator[tuple[str, str]]:
        """Each (part, row)."""
        yield from dict.fromkeys((part, row) for part, row, _ in self.values)


class Book:
    """Every table of some results. A table that is not there is an empty sheet."""

    def __init__(self, rows: pa.Table) -> None:
        self._sheets: dict[tuple[str, str], Sheet] = {}
        listed = [row for row in rows.to_pylist() if row["value"] is not None]
        halves = _halves(listed)
        for row in listed:
            where = (row["paper"], row["table"])
            sheet = self._sheets.setdefault(where, Sheet(*where, {}, {}))
            place = (row["part"], row["row"], row["column"])
            names = (*where, *place)
            texts = row["printed"].split("\u00b1")
            half = halves[_column(row)]
            sheet.values[place] = Printed(*names, texts[0], row["value"], half[0], row["unit"])
            if len(texts) == 2 and row["spread"] is not None:
                sheet.spreads[place] = Printed(*names, texts[1], row["spread"], half[1], row["unit"])

    def __call__(self, paper: str, table: str | int) -> Sheet:
        where = (paper, str(table))
        return self._sheets.get(where, Sheet(*where, {}, {}))

    def __iter__(self) -> Iterator[Sheet]:
        return iter(self._sheets.values())


def _halves(rows: Sequence[dict[str, str]]) -> dict[tuple[str, ...], list[float]]:
    """Half a unit of the last digit of each column's values and spreads; integers are exact.

    The digits of a column, not of a number: 0.9 below 0.92 is 0.90, printed without its last zero.
    """
    digits: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        longest = digits.setdefault(_column(row), [0, 0])
        for place, text in enumerate(row["printed"].split("\u00b1")[:2]):
            longest[place] = max(longest[place], len(text.partition(".")[2]))
    return {column: [0.5 * 10**-one if one else 0.0 for one in longest] for column, longest in digits.items()}


def _column(row: dict[str, str]) -> tuple[str, ...]:
    """The column that a number is printed in; numbers in running text have nothing in common."""
    own = row["row"] if row["table"] == "text" else ""
    return (row["paper"], row["table"], row["part"], row["column"], own)
