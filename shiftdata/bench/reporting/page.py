"""A report as one HTML page: no script, no other file; light and dark, on paper and on a narrow screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shiftdata.bench.reporting.tables import NUMBER, Section, Table
from shiftdata.errors import InputError
from shiftdata.pages.shell import render_alone
from shiftdata.papers import Results
from shiftdata.papers.tables import Grid

#: Of a chart, in inches: texts of 8 points are large enough where it fills a page.
WIDTH = 8


def page(title: str, sections: Sequence[Section]) -> str:
    """The page; every text in it is escaped."""
    shown = [_section(f"s{at}", one) for at, one in enumerate(sections)]
    return render_alone("report.html", name=title, sections=shown)


def _section(name: str, section: Section) -> dict[str, Any]:
    tables = [_table(f"{name}t{at}", one, section.head(one)) for at, one in enumerate(section.tables)]
    return {"id": name, "title": section.title, "notes": section.notes, "tables": tables}


def _table(name: str, table: Table, head: str) -> dict[str, Any]:
    """A chart, where there is one, above its table and notes."""
    chart = _svg(name, table.title, table.chart) if table.chart is not None else ""
    return {
        "id": name, "title": table.title, "head": head, "chart": chart, "notes": table.notes,
        "blocks": [_block(one, table.title) for one in table.grids],
    }  # fmt: skip


def _svg(name: str, title: str, numbers: Results) -> str:
    """The numbers as a chart; nothing where they are too many to read, or a single one."""
    from shiftdata.papers.charts import charts
    from shiftdata.pictures import svg_figure

    if len(numbers) < 2:
        return ""
    try:
        figure = charts(numbers.rows, WIDTH)
    except InputError:
        return ""
    return svg_figure(figure, name, f"Chart of {title}. The same numbers are in the table below.")


def _block(grid: Grid, title: str) -> dict[str, Any]:
    """A block of a table; the first column names its rows, and columns of numbers stand to the right."""
    columns = list(zip(*grid.body, strict=True)) or [()] * len(grid.header)  # a table may have no line
    numeric = [all(map(NUMBER.fullmatch, column)) for column in columns]
    caption = ", ".join(one for one in (title, grid.part) if one)
    lines = [(row, [_cell(one) for one in cells]) for row, cells in grid.lines]
    return {
        "caption": caption,
        "head": list(zip(grid.header, [False, *numeric[1:]], strict=True)),
        "lines": lines,
    }


def _cell(text: str) -> tuple[str, str, bool]:
    """A number and what is uncertain in it; or a text."""
    if not NUMBER.fullmatch(text):
        return text, "", False
    value, _, spread = text.partition("±")
    return value, spread, True
