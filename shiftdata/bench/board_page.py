"""The leaderboard as one HTML page that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import math
from typing import Any

from shiftdata.bench.board import LESS, Board, Ranked, Table
from shiftdata.bench.board_text import about, header_of, printed_of, published_for, row_of, title_of
from shiftdata.bench.scoring import Score
from shiftdata.metrics.records import number
from shiftdata.pages.shell import render_alone
from shiftdata.papers import citation

#: Fields of a card that the page shows.
_FIELDS = (
    "authors",
    "url",
    "code",
    "code_license",
    "backbone",
    "pretraining",
    "trained_on",
    "trials",
    "hyper",
    "cost",
)
#: Methods that are named where several may be the best.
MOST = 3


def page_of(board: Board) -> str:
    """The whole page; every text of a submission is escaped."""
    shown = [_table(f"t{at}", table) for at, table in enumerate(board.tables)]
    main, oracles = ([one for one in shown if one["oracle"] == apart] for apart in (False, True))
    return render_alone("board.html", main=main, oracles=oracles, refused=board.refused)


def _table(name: str, table: Table) -> dict[str, Any]:
    printed = printed_of(table)
    header = header_of(table, printed)
    return {
        "id": name, "title": title_of(table), "oracle": table.oracle, "about": about(table),
        "ahead": _ahead(table), "header": [*header[:2], "95 % interval", *header[2:]],
        "numeric": len(table.figures) + 3, "cards": list(map(_card, table.lines)),
        "lines": [_line(table, line, row_of(table, line, printed)) for line in table.lines],
        "published": _published(table),
    }  # fmt: skip


def _line(table: Table, line: Ranked, cells: list[str]) -> dict[str, Any]:
    method, rank, *others = cells
    figures = [one.partition(" ") for one in others[: len(table.figures)]]
    return {
        "method": method, "rank": rank, "flags": line.flags, "strip": _strip(table, line),
        "figures": [(value, interval) for value, _, interval in figures],
        "others": others[len(table.figures) :],
    }  # fmt: skip


def _ahead(table: Table) -> str:
    """Who is first, and whether the differences from the others, paired by origin, leave that open."""
    name, known = table.headline, [one for one in table.lines if math.isfinite(table.score(one).value)]
    if not known:
        return f"No method has a {name}."
    first, *others = known
    best = table.score(first)

    def behind(one: Ranked) -> bool:
        low, high = best.minus(table.score(one))
        return high < 0 if name.startswith(LESS) else low > 0  # nan: not

    said = f"{first.entry.card.method} is first by {name}, {number(best.value)}"
    if not others:
        return f"{said}, and alone."
    open_ = [one.entry.card.method for one in others if not behind(one)]
    if not open_:
        return f"{said}; the 95 % intervals of its differences from all others, paired by origin, exclude 0."
    more = f" and {len(open_) - MOST:,} more" if len(open_) > MOST else ""
    intervals = "interval of its difference" if len(open_) == 1 else "intervals of its differences"
    includes = "includes" if len(open_) == 1 else "include"
    return (
        f"{said}; the 95 % {intervals} from {', '.join(open_[:MOST])}{more}, paired by origin, {includes} 0: "
        "who is better is open."
    )


def _strip(table: Table, line: Ranked) -> dict[str, str]:
    """The figure that ranks and its interval, all lines of a table on one scale."""
    scores = [table.score(one) for one in table.lines]
    ends = [end for one in scores for end in (one.low, one.value, one.high) if math.isfinite(end)]
    mine = table.score(line)
    if not ends or not math.isfinite(mine.value):
        return {}
    low, width = min(ends), max(ends) - min(ends) or 1.0

    def place(value: float) -> str:
        return f"{6 + 128 * (value - low) / width:.1f}" if math.isfinite(value) else ""

    return {
        "label": f"{table.headline} {number(mine.value)}, scale {number(low)} to {number(low + width)}",
        "low": place(mine.low), "value": place(mine.value), "high": place(mine.high),
    }  # fmt: skip


def _card(line: Ranked) -> dict[str, Any]:
    entry, card = line.entry, line.entry.card
    facts = []
    for name in _FIELDS:
        value = getattr(card, name)
        text = ", ".join(value) if name == "authors" else str(dict(value)) if name == "hyper" else str(value)
        facts.append((name.replace("_", " "), text or "-"))
    spread = ", ".join(
        f"{name} {number(one.spread)}" for name, one in entry.scores.items() if math.isfinite(one.spread)
    )
    seeds = ", ".join(map(str, entry.seeds))
    facts += [
        ("seeds", f"{seeds}; standard deviation over them: {spread}" if spread else seeds),
        ("date, file", f"{card.date}, {entry.file}"),
        ("rows", ", ".join(f"{name} n={_counted(one)} ({one.of})" for name, one in entry.scores.items())),
    ]
    return {"method": card.method, "url": card.url, "facts": facts}


def _counted(score: Score) -> str:
    return f"{score.n:,}" + (f" of {score.origins:,} origins" if 0 < score.origins < score.n else "")


def _published(table: Table) -> dict[str, Any]:
    results = published_for(table)
    if results is None:
        return {}
    return {"citation": citation(results.rows["paper"][0].as_py()), "tables": results.tables()}
