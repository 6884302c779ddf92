"""A report as one HTML page: no script, no other file; light and dark, on paper and on a narrow screen."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from shiftdata.bench.reporting.tables import NUMBER, Section, Table
from shiftdata.errors import InputError
from shiftdata.papers import Results
from shiftdata.papers.tables import Grid

STYLE = Path(__file__).with_name("page.css")


def page(title: str, sections: Sequence[Section]) -> str:
    """The page; every text in it is escaped."""
    name = html.escape(f"Report on {title}")
    links = "".join(
        f'<li><a href="#s{at}">{html.escape(one.title)}</a></li>' for at, one in enumerate(sections)
    )
    head = (
        '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{name}</title>\n'
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>"
    )
    body = "\n".join(_section(at, one) for at, one in enumerate(sections))
    nav = f'<nav aria-label="Sections"><ol>{links}</ol></nav>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f"<body><main>\n<h1>{name}</h1>\n{nav}\n{body}\n</main></body></html>\n"
    )


def _section(at: int, section: Section) -> str:
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in section.notes)
    tables = "\n".join(
        _table(f"s{at}t{number}", one, section.head(one)) for number, one in enumerate(section.tables)
    )
    return f'<section id="s{at}">\n<h2>{html.escape(section.title)}</h2>\n{notes}\n{tables}\n</section>'


def _table(name: str, table: Table, head: str) -> str:
    """A chart, where there is one, above its table and notes."""
    blocks = "\n".join(_grid(one, table.title) for one in table.grids)
    notes = f'<p class="notes">{html.escape(" ".join(table.notes))}</p>' if table.notes else ""
    title = f"<h3>{html.escape(head)}</h3>\n{_chart(name, table)}"
    return f'<div class="table" id="{name}">\n{title}<div class="blocks">{blocks}</div>\n{notes}</div>'


def _chart(name: str, table: Table) -> str:
    drawn = _svg(name, table.title, table.chart) if table.chart is not None else ""
    return f'<figure class="scroll">{drawn}</figure>\n' if drawn else ""


def _svg(name: str, title: str, numbers: Results) -> str:
    """The numbers as a chart; nothing where they are too many to read, or a single one."""
    from shiftdata.papers.charts import charts
    from shiftdata.pictures import svg_figure

    if len(numbers) < 2:
        return ""
    try:
        figure = charts(numbers.rows)
    except InputError:
        return ""
    return svg_figure(figure, name, f"Chart of {title}. The same numbers are in the table below.")


def _grid(grid: Grid, caption: str) -> str:
    """A block as a table; the first column names its rows."""
    columns = list(zip(*grid.body, strict=True)) or [()] * len(grid.header)
    head = "".join(map(_head, grid.header, columns))
    lines = []
    for row, cells in grid.lines:
        of = "".join(_cell(cell) for cell in cells)
        lines.append(f'<tr><th scope="row">{html.escape(row)}</th>{of}</tr>')
    hidden = f"<caption>{html.escape(caption)}</caption>"
    rows = f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>"
    return f'<div class="scroll"><table>{hidden}{rows}</table></div>'


def _head(name: str, column: Sequence[str]) -> str:
    """The name of a column, on the side of its cells."""
    side = "" if all(map(NUMBER.fullmatch, column)) else ' class="text"'
    return f'<th scope="col"{side}>{html.escape(name)}</th>'


def _cell(text: str) -> str:
    """A number to the right, with what is uncertain in it set back; a text to the left."""
    if not NUMBER.fullmatch(text):
        return f'<td class="text">{html.escape(text)}</td>'
    value, sign, spread = text.partition("±")
    set_back = f'<span class="spread">±{spread}</span>' if sign else ""
    return f"<td>{html.escape(value)}{set_back}</td>"
