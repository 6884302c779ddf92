"""Read tables out of a paper's text: lines, captions, rows, printed numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shiftdata.bench.papers.numbers import TEXT, read_number
from shiftdata.errors import InputError

_MARKUP = re.compile(r"</?\w+>|[$*{}\\]")
_NAME = re.compile(r"<[^>]*>|\$|\*(?=\w[^*]*\*)|(?<=\w)\*(?=.*\w)")


@dataclass(frozen=True)
class Cell:
    """One printed number, or words where the unit is `TEXT`, and where it stands."""

    part: str
    row: str
    column: str
    metric: str
    printed: str
    unit: str
    line: int
    method: str | None = None


def cell_value(printed: str, unit: str) -> tuple[float | None, float | None]:
    """Return the value and the spread of a cell; words have neither."""
    return (None, None) if unit == TEXT else read_number(printed)


@dataclass(frozen=True)
class LeftOut:
    """A row or a cell that the conversion to text has damaged."""

    row: str
    line: int
    reason: str


@dataclass
class Table:
    """One table of a paper. `facts` is what caption and header say, to be compared."""

    name: str
    title: str
    section: str
    cells: list[Cell] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    figure: str | None = None  # the figure of the paper that shows these numbers

    def add(self, texts: Sequence[str], columns: Sequence[str], make: Cell) -> None:
        """Add a row: one text a column. A text that is not a number is left out and named."""
        if len(texts) != len(columns):
            reason = f"{len(texts)} numbers for {len(columns)} columns"
            self.left_out.append(LeftOut(place(make.part, make.row), make.line, reason))
            return
        for text, column in zip(texts, columns, strict=True):
            printed = name_of(text) if make.unit == TEXT else clean(text)
            try:
                cell_value(printed, make.unit)
            except InputError:
                where = place(make.part, make.row, column)
                self.left_out.append(LeftOut(where, make.line, f"{text.strip()!r} is not a number"))
                continue
            method = column if make.method == "column" else make.method
            self.cells.append(
                Cell(make.part, make.row, column, make.metric, printed, make.unit, make.line, method)
            )


@dataclass(frozen=True)
class Text:
    """The lines of a paper, counted from 1."""

    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Text:
        """The text of a file."""
        return cls(tuple(path.read_text(encoding="utf-8").split("\n")))

    def find(self, start: str, after: int = 0) -> int:
        """The number of the first line that begins with `start`."""
        for number in range(after + 1, len(self.lines) + 1):
            if self.lines[number - 1].startswith(start):
                return number
        raise InputError(f"the text has no line that begins with {start!r}")

    def below(self, line: int, until: str | None = None) -> Iterator[tuple[int, str]]:
        """The rows under a line, up to prose: lines with tabs; empty lines are passed over.

        With `until`, every line up to the one that begins so.
        """
        for number in range(line + 1, len(self.lines) + 1):
            text = self.lines[number - 1]
            if until is not None and text.startswith(until):
                return
            if until is None and text.strip() and "\t" not in text:
                return
            if text.strip():
                yield number, text

    def above(self, line: int) -> list[tuple[int, str]]:
        """The rows over a line, down to it: lines with tabs; empty lines are passed over."""
        rows = []
        for number in range(line - 1, 0, -1):
            text = self.lines[number - 1]
            if text.strip() and "\t" not in text:
                break
            if text.strip():
                rows.append((number, text))
        return rows[::-1]

    def number(self, pattern: str) -> tuple[str, int]:
        """The one number that a pattern's group finds in the text, and its line."""
        found = [
            (match[1], number)
            for number, text in enumerate(self.lines, 1)
            for match in re.finditer(pattern, text)
        ]
        if len({printed for printed, _ in found}) != 1:
            raise InputError(f"{pattern!r} finds {found or 'nothing'} in the text")
        return found[0]


def clean(text: str) -> str:
    r"""A printed number without markup, spaces and thousands separators.

    >>> clean("<u>79.45</u>"), clean("$0.434(\\pm 0.023)$"), clean("77.19 ± 2.04"), clean("202 599")
    ('79.45', '0.434±0.023', '77.19±2.04', '202599')
    """
    marked = text.replace("\\pm", "±")
    bare = re.sub(r"[\s,()%]", "", _MARKUP.sub("", marked))
    return re.sub(r"^([+-]?)0+(?=\d)", r"\1", bare)


def name_of(text: str) -> str:
    """A row's or column's name without markup and references.

    >>> [name_of(text) for text in ("RSC [H. et al., 2020]", "*DOGS* dawn", "NICO <sup>++</sup>", "Oracle*")]
    ['RSC', 'DOGS dawn', 'NICO++', 'Oracle*']
    """
    bare = re.sub(r"\[[^]]*\]|\([^)]*et al\.[^)]*\)", "", _NAME.sub("", text))
    latin = bare.replace("\u041e", "O")  # a Cyrillic letter that looks the same
    return re.sub(r"\s+", " ", latin).replace(" ++", "++").strip()


def cells_of(line: str) -> list[str]:
    """The cells of a line, the name first."""
    return [cell.strip() for cell in line.split("\t")]


def place(*names: str) -> str:
    """Where something stands, in words."""
    return ", ".join(name for name in names if name)


def said(text: Text, claims: Iterable[tuple[str, str, str, str]]) -> Table:
    """Numbers that the running text states: (name, pattern with a group, unit, metric)."""
    table = Table("text", "Numbers that the running text states", "-")
    for name, pattern, unit, metric in claims:
        printed, line = text.number(pattern)
        table.add([printed], ["stated"], Cell("", name, "", metric, "", unit, line))
    return table
