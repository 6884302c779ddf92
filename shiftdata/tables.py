"""Tables of text, and every form in which they are written: aligned, Markdown, HTML, CSV."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

#: A cell that is set to the right: a number, with a spread or not, an interval, a small p, a dash, nothing.
NUMBER = re.compile(r"[<+-]?[\d,.]*(±[\d.]+)?( to [+-][\d.]+)?|-")
#: The beginning of what a spreadsheet would run.
_FORMULA = re.compile("'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]")
#: Of a page: tables with more columns are set smaller in print.
_MANY = 12


@dataclass(frozen=True)
class Cell:
    """A number as it is printed, and what it is."""

    text: str
    metric: str
    unit: str
    value: float = math.nan
    spread: float = math.nan


#: Cells by their part, row and column.
Cells: TypeAlias = dict[tuple[str, str, str], Cell]


@dataclass(frozen=True)
class Block:
    """A header and lines of as many cells; the first cell of a line names it, that of the header the block.

    >>> print(Block(("K = 4", "0.2"), (("erm", "61.1"), ("suby", "9.5±0.2"))).text())
    K = 4      0.2
    erm       61.1
    suby   9.5±0.2
    """

    header: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, part: str, cells: Mapping[tuple[str, str], str], order: Sequence[str] = ()) -> Block:
        """Cells by row and column, both as they come, or columns in an order; "" where there is no cell."""
        rows, columns = (list(dict.fromkeys(place[at] for place in cells)) for at in (0, 1))
        if order:
            columns.sort(key=order.index)
        body = ((row, *(cells.get((row, column), "") for column in columns)) for row in rows)
        return cls((part, *columns), tuple(body))

    @property
    def part(self) -> str:
        return self.header[0]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.header[1:]

    @property
    def numeric(self) -> list[bool]:
        """True for columns of numbers alone; the first is never one."""
        columns = zip(*self.body, strict=True) if self.body else [()] * len(self.header)
        return [place > 0 and all(map(NUMBER.fullmatch, cells)) for place, cells in enumerate(columns)]

    def text(self) -> str:
        return aligned(self.header, self.body, self.numeric)

    def html(self, title: str, *, shown: bool = True) -> str:
        """Return a table with its names as heads; a caption not `shown` is for screen readers alone."""
        heads = [
            _element("th", name, 'scope="col" class="n"' if right else 'scope="col"') if name else "<td></td>"
            for name, right in zip(self.header, self.numeric, strict=True)
        ]
        lines = [
            "".join(["<tr>", _element("th", name, 'scope="row"'), *map(_cell, cells), "</tr>"])
            for name, *cells in self.body
        ]
        kind = "results many" if len(self.header) > _MANY else "results"
        return "\n".join(
            [
                f'<table class="{kind}">',
                _element("caption", title, "" if shown else 'class="sr"'),
                f"<thead><tr>{''.join(heads)}</tr></thead>",
                "<tbody>",
                *lines,
                "</tbody></table>",
            ]
        )


@dataclass(frozen=True)
class Table:
    """Blocks under one title, with notes on all of them.

    `drawn` are the blocks that a chart shows; `label` is what its numbers are. `figure` makes a chart of its
    own, of a width in inches.
    """

    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    drawn: tuple[Block, ...] = ()
    label: str = ""
    figure: Callable[..., Any] | None = None

    @classmethod
    def of(
        cls,
        title: str,
        cells: Cells,
        notes: Iterable[str] = (),
        corner: str | Callable[[str], str] = lambda part: part,
        *,
        order: Sequence[str] = (),
        drawn: bool = True,
    ) -> Table:
        """Make a block for each part of cells; `corner` heads its rows, `order` is that of the columns."""
        name = corner if callable(corner) else lambda part: corner

        def blocks(chosen: Cells) -> tuple[Block, ...]:
            parts: dict[str, dict[tuple[str, str], str]] = {}
            for (part, row, column), cell in chosen.items():
                parts.setdefault(part, {})[row, column] = cell.text
            return tuple(Block.of(name(part), texts, order) for part, texts in parts.items())

        units = Counter(cell.unit for cell in cells.values() if cell.unit != "text")
        # Ranks and per cents have no scale in common: a chart has the most frequent unit.
        ((unit, _),) = units.most_common(1) or [("", 0)]
        shown = {place: cell for place, cell in cells.items() if drawn and cell.unit == unit}
        metrics = {cell.metric for cell in shown.values()}
        label = f"{metrics.pop()} ({unit})" if len(metrics) == 1 else unit
        return cls(title, blocks(cells), tuple(notes), blocks(shown), label)

    @classmethod
    def plain(
        cls,
        title: str,
        header: Sequence[str],
        body: Iterable[Sequence[str]],
        notes: Iterable[str] = (),
        figure: Callable[..., Any] | None = None,
    ) -> Table:
        """A table of a single block."""
        return cls(title, (Block(tuple(header), tuple(map(tuple, body))),), tuple(notes), figure=figure)

    @property
    def drawable(self) -> bool:
        """True if a chart has two numbers or more to show."""
        numbers = sum(bool(cell) for block in self.drawn for _, *cells in block.body for cell in cells)
        return self.figure is not None or numbers > 1

    def text(self, title: str | None = None) -> str:
        title = self.title if title is None else title
        return _paragraphs(title, *(block.text() for block in self.blocks), "\n".join(self.notes))

    def markdown(self) -> str:
        blocks = (f"**{self.title}**\n\n{markdown(block.header, block.body)}" for block in self.blocks)
        return _paragraphs(*blocks, "\n".join(f"- {note}" for note in self.notes))

    def html(self) -> str:
        return "\n".join(block.html(self.title) for block in self.blocks)


def aligned(
    header: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool] | None = None
) -> str:
    """Rows of text in columns; the `numeric` columns stand to the right [default: all but the first].

    >>> print(aligned(["group", "n"], [["0", "12"], ["17", "3"]]))
    group   n
    0      12
    17      3
    """
    lines = [header, *rows]
    numeric = numeric or [False, *[True] * (len(header) - 1)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of text as a Markdown table, the first column to the left, the others to the right."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV, the header first."""
    return "".join(f"{line}\n" for line in csv_lines(rows))


def csv_lines(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """Return rows as lines of CSV, of which a spreadsheet runs nothing; None is an empty cell."""
    for row in rows:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="").writerow(map(csv_cell, row))
        yield buffer.getvalue()


def csv_cell(value: Any) -> Any:
    """A value as a cell of a CSV file: a text that a spreadsheet would run gets a single quote before it.

    >>> csv_cell("=1+1"), csv_cell("'=1"), csv_cell("cat"), csv_cell(-1.5)
    ("'=1+1", "''=1", 'cat', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def from_csv_cell(text: str) -> str:
    """The text that `csv_cell` wrote."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def harmless(text: str) -> str:
    """A text in which Markdown sees neither markup nor a mention nor HTML."""
    for character, code in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "&#64;"), ("|", "&#124;")):
        text = text.replace(character, code)
    text = re.sub(r"([\\`*_{}\[\]()!~$#])(?!\d+;)", r"\\\1", text)
    return text.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _element(tag: str, text: str, attributes: str = "") -> str:
    return f"<{tag} {attributes}>".replace(" >", ">") + f"{html.escape(text)}</{tag}>"


def _cell(text: str) -> str:
    """Return a number, with its spread apart; or a text."""
    if not NUMBER.fullmatch(text):
        return _element("td", text)
    value, _, spread = text.partition("±")
    apart = f'<span class="spread">±{spread}</span>' if spread else ""
    return f'<td class="n">{html.escape(value)}{apart}</td>'
