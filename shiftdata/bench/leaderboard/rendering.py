"""The leaderboard as Markdown, and as one HTML page without a script, a font or a request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from shiftdata.bench.leaderboard.board import LESS, Ranked, Refused, Table
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.pages.shell import render_alone
from shiftdata.tables import harmless, markdown

#: The most methods to name as possibly the best.
MOST = 3


def markdown_of(tables: Sequence[Table], refused: Sequence[Refused]) -> str:
    """Every table and the refused files; texts of submissions are never read as markup."""
    parts = []
    for table in tables:
        parts += [f"### {harmless(table.title)}", harmless(table.about)]
        parts += [_table(table.header, map(table.row, table.lines))]
    if refused:
        lines = [[of.file, of.method or "-", of.reason] for of in refused]
        parts += ["### Refused", _table(["file", "method", "reason"], lines)]
    return "\n\n".join(parts) + "\n"


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    return markdown([*map(harmless, header)], [[*map(harmless, row)] for row in rows])


def page_of(tables: Sequence[Table], refused: Sequence[Refused]) -> str:
    """The page; every text of a submission is escaped."""
    shown = [
        {
            "id": f"t{number}",
            "table": table,
            "ahead": _ahead(table),
            "lines": [(line, [cell.partition(" [") for cell in table.row(line)]) for line in table.lines],
            "cards": [(line.entry.card, _facts(line)) for line in table.lines],
        }
        for number, table in enumerate(tables)
    ]
    main = [of for of, table in zip(shown, tables, strict=True) if not table.oracle]
    oracles = [of for of in shown if of not in main]
    return render_alone("board.html", main=main, oracles=oracles, refused=refused)


def _ahead(table: Table) -> str:
    """The first method, and the methods from which its difference, paired by origin, may be 0."""
    name, lines = table.headline, [line for line in table.lines if math.isfinite(table.score(line).value)]
    if not lines:
        return f"No method has a {name}."
    first, *others = lines
    best = table.score(first)

    def behind(line: Ranked) -> bool:
        low, high = best.minus(table.score(line))
        return high < 0 if name.startswith(LESS) else low > 0  # False for nan

    text = f"{first.entry.card.method} is first by {name}, {number(best.value)}"
    if not others:
        return f"{text}, and alone."
    left = [line.entry.card.method for line in others if not behind(line)]
    if not left:
        return f"{text}; the 95 % intervals of its differences from all others, paired by origin, exclude 0."
    more = f" and {len(left) - MOST:,} more" if len(left) > MOST else ""
    return (
        f"{text}; the 95 % intervals of its differences from {', '.join(left[:MOST])}{more}, paired by "
        "origin, include 0: who is better is open."
    )


def _facts(line: Ranked) -> list[tuple[str, str]]:
    """The fields of the method card, the spread over seeds, and the rows of figures."""
    entry, card = line.entry, asdict(line.entry.card)
    card |= {"authors": ", ".join(card["authors"]), "file": entry.file}
    hidden = ("method", "tasks", "dataset", "base", "content_id")
    facts = [(name.replace("_", " "), str(card[name]) or "-") for name in card if name not in hidden]
    scores = entry.scores.items()
    spread = ", ".join(f"{name} {number(of.spread)}" for name, of in scores if math.isfinite(of.spread))
    seeds = ", ".join(map(str, entry.seeds)) + (f"; standard deviation over them: {spread}" if spread else "")
    rows = ", ".join(f"{name} n={of.rows} ({of.of})" for name, of in scores)
    return [*facts, ("seeds", seeds), ("rows", rows)]
