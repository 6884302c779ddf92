"""`shiftdata published`: the papers' numbers, to look at and to export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from shiftdata.bench.papers import PAPERS, Results, citation, published, published_tables, ranking
from shiftdata.cli.verbs import format_option, verb

FORMATS: dict[str, Callable[[Results], str]] = {
    "text": lambda results: f"{results}\n",
    "csv": Results.to_csv,
    "markdown": Results.to_markdown,
}


def choices(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each column by which numbers are chosen."""
    for name in ("metric", "method", "column", "row", "part"):
        help_text = f"Only this {name}; repeatable."
        function = click.option(f"--{name}", multiple=True, metavar="NAME", help=help_text)(function)
    return function


@verb("""
    examples:
      shiftdata published                                      the papers and their tables
      shiftdata published nico++ 2                             one table
      shiftdata published sma --metric H-score --row mean      numbers of several tables
      shiftdata published domainbed-v2 5 --format markdown > table5.md
      shiftdata published cns-bench 2 --picture accuracy.png
      shiftdata published domainbed-v2 5 --column PACS --column VLCS --rank
""")
@click.argument("paper", required=False, help=f"One of {', '.join(PAPERS)}; none: all of them.")
@click.argument("table", required=False, help="A table, such as 5 or 'figure 12'; none: a list of them.")
@choices
@format_option(*FORMATS)
@click.option("--picture", type=Path, metavar="FILE.png", help="Draw a chart of the numbers.")
@click.option("--rank", is_flag=True, help="Rank the methods by their mean.")
def command(
    paper: str | None,
    table: str | None,
    form: str,
    picture: Path | None,
    rank: bool,
    **choices: tuple[str, ...],
) -> None:
    """Show the numbers that the papers print.

    Without a table, lists the tables and what is missing in them.
    """
    chosen = {name: values for name, values in choices.items() if values}
    if table is not None or chosen:
        results = published(paper, table, **chosen)
    else:
        print(_tables(paper))
        return
    if picture:
        results.picture().save(picture)
        print(f"{picture}: a chart of {len(results):,} numbers")
    if rank:
        print(ranking(results, names=[paper or "results"]))
    elif not picture:
        print(FORMATS[form](results), end="")


def _tables(paper: str | None) -> str:
    """The tables of one paper or of all; for one paper also the damaged places of its text."""
    lines = []
    for name in [paper] if paper else PAPERS:
        tables = published_tables(name)
        lines += ["", f"{name}: {citation(name)}"]
        for table in tables:
            damaged = f"  ({len(table.left_out)} damaged places)" if table.left_out else ""
            figure = f"  [figure {table.figure}]" if table.figure else ""
            lines.append(f"  {table.table:<10}{table.numbers:>5} numbers  {table.title}{figure}{damaged}")
            for place in table.left_out if paper else ():
                lines.append(f"{'':<14}left out, line {place['line']}: {place['row']}: {place['reason']}")
    return "\n".join(lines[1:])
