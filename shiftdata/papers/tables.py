"""Results as text, Markdown, LaTeX, CSV and HTML: one grid of rows and columns a block of a table."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from shiftdata.metrics.records import table as aligned
from shiftdata.papers.numbers import SCHEMA, published_tables


@dataclass(frozen=True)
class Grid:
    """One block of a table as printed: a line a row, a text a column, empty where there is no number."""

    paper: str
    table: str
    part: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def title(self) -> str:
        """The table, and its title where it is published."""
        name = self.table if self.table.startswith(("figure", "text")) else f"table {self.table}"
        titles = [
            one.title for one in published_tables() if (one.paper, one.table) == (self.paper, self.table)
        ]
        return f"{self.paper}, {name}" + (f": {titles[0]}" if titles else "")

    @property
    def header(self) -> list[str]:
        """The head of the columns; that of the rows is the block's name."""
        return [self.part, *self.columns]

    @property
    def body(self) -> list[list[str]]:
        """The lines with their names."""
        return [[row, *cells] for row, cells in self.lines]


def grids(rows: pa.Table) -> Iterator[Grid]:
    """Each block of each table, in order."""
    blocks: dict[tuple[str, str, str], dict[tuple[str, str], str]] = {}
    for row in rows.to_pylist():
        block = blocks.setdefault((row["paper"], row["table"], row["part"]), {})
        block[row["row"], row["column"]] = row["printed"]
    for (paper, table, part), cells in blocks.items():
        columns = tuple(dict.fromkeys(column for _, column in cells))
        names = dict.fromkeys(row for row, _ in cells)
        lines = tuple((name, tuple(cells.get((name, one), "") for one in columns)) for name in names)
        yield Grid(paper, table, part, columns, lines)


def as_text(rows: pa.Table) -> str:
    """Grids in aligned columns, under the title of their table."""
    parts, title = [], ""
    for grid in grids(rows):
        if grid.title != title:
            title = grid.title
            parts.append(title)
        parts.append(aligned(grid.header, grid.body))
    return "\n\n".join(parts) or "no numbers"


def as_csv(rows: pa.Table) -> str:
    """One line a number."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, SCHEMA.names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows.to_pylist())
    return buffer.getvalue()


def as_markdown(rows: pa.Table) -> str:
    """One table a block."""
    parts = []
    for grid in grids(rows):
        lines = [_piped(grid.header), _piped(["---", *["--:"] * len(grid.columns)])]
        parts.append("\n".join([f"**{grid.title}**", "", *lines, *map(_piped, grid.body)]))
    return "\n\n".join(parts) + "\n"


def as_latex(rows: pa.Table) -> str:
    """One `table` environment a block, with booktabs' rules."""
    parts = []
    for grid in grids(rows):
        caption = grid.title + (f" ({grid.part})" if grid.part else "")
        header = ["", *grid.columns]
        lines = [
            rf"\begin{{table}}\caption{{{_tex(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}\toprule",
            _ampersands(header) + r"\midrule",
            *map(_ampersands, grid.body),
            r"\bottomrule\end{tabular}\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def as_html(rows: pa.Table) -> str:
    """Tables for a notebook."""
    parts = []
    for grid in grids(rows):
        head = "".join(f"<th>{html.escape(name)}</th>" for name in grid.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in grid.body
        )
        parts.append(f"<p>{html.escape(grid.title)}</p><table><tr>{head}</tr>{body}</table>")
    return "\n".join(parts)


def _piped(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(map(_tex, cells)) + r" \\"


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "→": r"$\to$",
}  # fmt: skip


def _tex(text: str) -> str:
    """A text with what LaTeX would read as a command made harmless."""
    return "".join(_TEX.get(sign, sign) for sign in text)
