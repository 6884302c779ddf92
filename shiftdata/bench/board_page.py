"""The leaderboard as one HTML page that needs nothing else: no script, no font, no request."""

from __future__ import annotations

import math
from html import escape

from shiftdata.bench.board import Board, Ranked, Table
from shiftdata.bench.board_text import about, header_of, printed_of, published_for, row_of, title_of
from shiftdata.metrics.records import number
from shiftdata.papers import citation
from shiftdata.papers.tables import grids

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --mark: #2a6fdb; }
@media (prefers-color-scheme: dark) { :root { --mark: #7fb0ff; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
p, dd, summary { max-width: 48rem; overflow-wrap: anywhere; } .about { font-size: .9rem; opacity: .85; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .4rem .8rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-size: .85rem; white-space: nowrap; }
td:first-child, th:first-child, .text { text-align: left; min-width: 8rem; max-width: 20rem; }
td { overflow-wrap: anywhere; }
.interval { display: block; font-size: .8rem; opacity: .75; white-space: nowrap; }
.badge { font-size: .8rem; background: var(--soft); border-radius: .3rem; padding: .1rem .4rem; }
.flag { font-size: .8rem; border: 1px solid currentColor; border-radius: .3rem; padding: .1rem .4rem; }
svg { width: 9rem; height: 1.2rem; }
svg line { stroke: var(--mark); stroke-width: 2; } svg circle { fill: var(--mark); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem; }
dd { margin: 0; }
details { margin: .6rem 0; } summary { cursor: pointer; }
@media (max-width: 40rem) {
  dl { grid-template-columns: 1fr; } dt { font-weight: 600; } th, td { padding: .3rem .5rem; }
}
"""
INTRO = (
    "Every number here was computed again from predictions by key on the dataset that is named by its "
    "content_id; no number of a card was taken over. <b>Selection repeated</b>: the stated rule, run again "
    "on the predictions of all candidates for the set to select by, chooses the model that was judged. "
    "<b>Selection as stated</b>: its authors say so. Nobody can see from predictions whether a model was "
    "trained on the test, or how often somebody submitted."
)
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


def page_of(board: Board) -> str:
    """The whole page; every text of a submission is escaped."""
    main = [one for one in board.tables if not one.oracle]
    oracle = [one for one in board.tables if one.oracle]
    parts = ["<h1>Leaderboard</h1>", f"<p>{INTRO}</p>", *map(_section, main)]
    if oracle:
        parts.append("<h1>Oracles</h1><p>Selection saw the test: upper bounds, not results.</p>")
        parts += map(_section, oracle)
    if board.refused:
        rows = "".join(
            f"<tr><td>{escape(one.file)}<td class=text>{escape(one.method or '-')}<td "
            f"class=text>{escape(one.reason)}"
            for one in board.refused
        )
        head = "<tr><th>file<th class=text>method<th class=text>reason"
        parts.append(f"<h1>Refused</h1><div class=wide><table>{head}{rows}</table></div>")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Leaderboard</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"
    )


def _section(table: Table) -> str:
    printed = printed_of(table)
    names = header_of(table, printed)
    head = "".join(f"<th>{escape(name)}" for name in [*names[:2], "", *names[2:]])
    rows = "".join(_row(table, line, row_of(table, line, printed)) for line in table.lines)
    cards = "".join(map(_card, table.lines))
    return (
        f"<h2>{escape(title_of(table))}</h2><p class=about>{escape(about(table))}</p>"
        f"<div class=wide><table><tr>{head}{rows}</table></div>{cards}{_published(table)}"
    )


def _row(table: Table, line: Ranked, cells: list[str]) -> str:
    method, rank, *others = cells
    flags = "".join(f" <span class=flag>{escape(one)}</span>" for one in line.flags)
    shown = []
    for at, text in enumerate(others):
        value, bracket, interval = text.partition(" [")
        if at < len(table.figures) and bracket:
            shown.append(f"<td>{escape(value)}<span class=interval>[{escape(interval)}</span>")
        else:
            kind = f"<span class=badge>{escape(text)}</span>" if "selection" in text else escape(text)
            shown.append(f"<td>{kind}")
    return f"<tr><td>{escape(method)}{flags}<td>{escape(rank)}<td>{_strip(table, line)}{''.join(shown)}"


def _strip(table: Table, line: Ranked) -> str:
    """The figure that ranks and its interval, all lines of a table on one scale."""
    scores = [one.entry.scores[table.headline] for one in table.lines]
    ends = [end for one in scores for end in (one.low, one.value, one.high) if math.isfinite(end)]
    mine = line.entry.scores[table.headline]
    if not ends or not math.isfinite(mine.value):
        return ""
    low, width = min(ends), max(ends) - min(ends) or 1.0

    def place(value: float) -> str:
        return f"{6 + 128 * (value - low) / width:.1f}"

    bar = ""
    if math.isfinite(mine.low):
        bar = f'<line x1="{place(mine.low)}" x2="{place(mine.high)}" y1="9" y2="9"/>'
    label = f"{table.headline} {number(mine.value)}, scale {number(low)} to {number(low + width)}"
    return (
        f'<svg viewBox="0 0 140 18" role="img" aria-label="{escape(label)}">{bar}'
        f'<circle cx="{place(mine.value)}" cy="9" r="4"/></svg>'
    )


def _card(line: Ranked) -> str:
    entry, card = line.entry, line.entry.card
    rows = []
    for name in _FIELDS:
        value = getattr(card, name)
        text = ", ".join(value) if name == "authors" else str(dict(value)) if name == "hyper" else str(value)
        shown = escape(text) or "-"
        if name == "url" and text:
            shown = f'<a rel="nofollow noopener noreferrer" href="{escape(text)}">{shown}</a>'
        rows.append(f"<dt>{name.replace('_', ' ')}<dd>{shown}")
    spread = ", ".join(
        f"{name} {number(one.spread)}" for name, one in entry.scores.items() if math.isfinite(one.spread)
    )
    n = ", ".join(f"{name} n={one.n:,} ({one.of})" for name, one in entry.scores.items())
    seeds = ", ".join(map(str, entry.seeds))
    rows.append(
        f"<dt>seeds<dd>{seeds}{escape(f'; standard deviation over them: {spread}') if spread else ''}"
    )
    rows.append(f"<dt>date, file<dd>{escape(card.date)}, {escape(entry.file)}<dt>rows<dd>{escape(n)}")
    return f"<details><summary>{escape(card.method)}</summary><dl>{''.join(rows)}</dl></details>"


def _published(table: Table) -> str:
    results = published_for(table)
    if results is None:
        return ""
    paper = results.rows["paper"][0].as_py()
    blocks = "".join(f"<div class=wide>{one.html()}</div>" for one in grids(results.rows))
    return (
        "<details><summary>What the paper prints: other pictures and backbones, so compare orders, not "
        f"numbers</summary><p class=about>{escape(citation(paper))}</p>{blocks}</details>"
    )
