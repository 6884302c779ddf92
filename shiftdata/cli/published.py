"""`shiftdata published`: the papers' numbers, to look at and to export."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from shiftdata.papers.papers import PAPERS

FORMATS = ("text", "csv", "markdown", "latex")
EPILOG = """examples:
  shiftdata published                                      # the papers and their tables
  shiftdata published nico++ 2                             # one table
  shiftdata published sma --metric H-score --row mean      # numbers of several tables
  shiftdata published domainbed-v2 5 --format latex --output table5.tex
  shiftdata published cns-bench 2 --picture accuracy.png
  shiftdata published domainbed-v2 5 --column PACS VLCS --rank
"""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "published",
        help="numbers of the five papers: list, show, export",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("paper", nargs="?", help=f"one of {', '.join(PAPERS)} (default: all)")
    verb.add_argument(
        "table", nargs="?", help="a table's name, such as 5 or 'figure 12' (default: list them)"
    )
    for name in ("part", "row", "column", "method", "metric"):
        verb.add_argument(f"--{name}", nargs="+", metavar="NAME", help=f"numbers of these {name}s only")
    verb.add_argument("--file", metavar="FILE", help="results of one's own (Parquet) instead of the papers'")
    verb.add_argument("--format", choices=FORMATS, default="text", help="how to print (default: text)")
    verb.add_argument("--output", metavar="FILE", help="write there instead of printing")
    verb.add_argument("--picture", metavar="FILE.png", help="draw a chart of the numbers")
    verb.add_argument("--rank", action="store_true", help="rank the methods")
    verb.set_defaults(run=run_published)


def run_published(options: argparse.Namespace) -> int:
    """List, show or export."""
    from shiftdata.papers.core import Results, published

    chosen = {name: getattr(options, name) for name in ("part", "row", "column", "method", "metric")}
    chosen = {name: values for name, values in chosen.items() if values}
    if options.file is None and options.table is None and not chosen:
        return _list(options)
    if options.file is None:
        results = published(options.paper, options.table, **chosen)
    else:
        named = {name: getattr(options, name) for name in ("paper", "table") if getattr(options, name)}
        results = Results.read(options.file).where(**named, **chosen)
    if options.picture:
        results.picture().save(options.picture)
        print(f"{options.picture}: a chart of {len(results):,} numbers")
    if options.rank:
        from shiftdata.papers.standings import leaderboard

        _print(leaderboard(results, names=[options.paper or "results"]).table() + "\n", options.output)
    elif options.output or not options.picture:
        _print(_formatted(results, options.format), options.output)
    return 0


def _formatted(results: Any, name: str) -> str:
    forms = {"csv": results.to_csv, "markdown": results.to_markdown, "latex": results.to_latex}
    return forms[name]() if name in forms else f"{results}\n"


def _list(options: argparse.Namespace) -> int:
    """The tables of each paper, and what the text has damaged."""
    from shiftdata.papers.core import tables_of

    lines = []
    for paper in [options.paper] if options.paper else PAPERS:
        tables = tables_of(paper)
        lines += ["", f"{paper}: {PAPERS[paper].citation}"]
        for one in tables:
            lost = f"  ({len(one.left_out)} damaged places)" if one.left_out else ""
            figure = f"  [figure {one.figure}]" if one.figure else ""
            lines.append(f"  {one.table:<10}{one.numbers:>5} numbers  {one.title}{figure}{lost}")
            if options.paper:
                lines += [
                    f"{'':<14}left out, line {lost['line']}: {lost['row']}: {lost['reason']}"
                    for lost in one.left_out
                ]
    _print("\n".join(lines[1:]) + "\n", options.output)
    return 0


def _print(text: str, output: str | None) -> None:
    if output:
        Path(output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
