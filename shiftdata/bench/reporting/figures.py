"""The charts of a report as figures for a paper, with captions that say what every number needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from shiftdata.bench.reporting.making import Report
from shiftdata.bench.reporting.tables import Section, Table
from shiftdata.errors import InputError
from shiftdata.files import write_bytes, write_text
from shiftdata.papers.figures import WIDTHS, figure_files
from shiftdata.papers.tables import tex

CAPTIONS = "captions.tex"


def write_figures(
    made: Report, folder: Path, width: float = WIDTHS[0], step: Callable[[], object] = lambda: None
) -> list[str]:
    """Write each chart as SVG and PDF, and LaTeX that includes them; return the names of the figures.

    Args:
        made: a report.
        folder: where to; files of the same names are replaced.
        width: in inches: 3.25 fills a column, 6.75 a page of two.
        step: is called after each chart of the report.

    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: figures are several, give a folder for them")
    folder.mkdir(parents=True, exist_ok=True)
    captions: dict[str, str] = {}
    for section, table in charts_of(made):
        said = re.sub(r"[^a-z0-9]+", "-", f"{section.title} {section.head(table)}".lower())
        name = f"{len(captions) + 1:02}-{said.strip('-')[:90]}"  # of signs that every system and LaTeX takes
        try:
            files = figure_files(table.chart.rows, width, name) if table.chart else {}
        except InputError:  # too much for one figure: the table has it
            files = {}
        for ending, data in files.items():
            write_bytes(folder / f"{name}.{ending}", data)
        if files:
            captions[name] = _caption(name, table, width)
        step()
    if not captions:
        raise InputError(f"{made.title} has no chart: a figure needs two numbers or more of one kind")
    write_text(folder / CAPTIONS, "\n".join(captions.values()))
    return list(captions)


def charts_of(made: Report) -> Iterator[tuple[Section, Table]]:
    """The tables of a report that can be drawn, with their sections."""
    for section in made.sections:
        for table in section.tables:
            if table.chart is not None and len(table.chart) > 1:
                yield section, table


def _caption(name: str, table: Table, width: float) -> str:
    kind = "figure" if width <= WIDTHS[0] else "figure*"
    said = tex(" ".join([f"{table.title}.", *table.notes]))
    return (
        f"\\begin{{{kind}}}\n  \\centering\n  \\includegraphics{{{name}.pdf}}\n"
        f"  \\caption{{{said}}}\n  \\label{{fig:{name}}}\n\\end{{{kind}}}\n"
    )
