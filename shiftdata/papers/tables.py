"""One grid of rows and columns a block of a table; as Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from shiftdata.metrics.records import markdown
from shiftdata.papers.numbers import PAPERS, published_tables


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
        if self.paper not in PAPERS:
            return ", ".join(name for name in (self.paper, self.table) if name)
        name = self.table if self.table.startswith(("figure", "text")) else f"table {self.table}"
        titles = [
            one.title for one in published_tables() if (one.paper, one.table) == (self.paper, self.table)
        ]
        return f"{self.paper}, {name}" + (f": {titles[0]}" if titles else "")

    @property
    def header(self) -> list[str]:
        return [self.part, *self.columns]

    @property
    def body(self) -> list[list[str]]:
        return [[row, *cells] for row, cells in self.lines]

    def markdown(self) -> str:
        return f"**{self.title}**\n\n{markdown(self.header, self.body)}"

    def latex(self) -> str:
        caption = tex(self.title + (f" ({self.part})" if self.part else ""))
        lines = [
            rf"\begin{{table}}\caption{{{caption}}}",
            rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}\toprule",
            _ampersands(["", *self.columns]) + r"\midrule",
            *map(_ampersands, self.body),
            r"\bottomrule\end{tabular}\end{table}",
        ]
        return "\n".join(lines)

    def html(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.header)
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in self.body)
        body = "".join(f"<tr>{line}</tr>" for line in cells)
        return f"<p>{html.escape(self.title)}</p><table><tr>{head}</tr>{body}</table>"


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


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(map(tex, cells)) + r" \\"


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "→": r"$\to$",
    "√": r"$\surd$",
}  # fmt: skip


def tex(text: str) -> str:
    """A text with what LaTeX would read as a command made harmless."""
    return "".join(_TEX.get(sign, sign) for sign in text)
