"""The leaderboard as Markdown and CSV."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from shiftdata.bench.leaderboard.board import Refused, Table
from shiftdata.tables import csv_text, markdown

#: Columns of the CSV; those of an entry, of its card, of a figure, of a file that was refused.
ENTRY = ("dataset", "content_id", "task_id", "protocol", "set", "board", "rank", "method", "file")
FIGURE = ("figure", "value", "low", "high", "spread", "n")
MORE = ("seeds", "rule", "selection", "flags", "refused")


def markdown_of(tables: Sequence[Table], refused: Sequence[Refused]) -> str:
    """Every table and what was refused; texts of submissions are shown as they are, none as markup."""
    parts = []
    for table in tables:
        flags = [f"{line.entry.file}: {flag}" for line in table.lines for flag in line.flags]
        parts += [f"### {_harmless(table.title)}", _harmless(table.about)]
        parts += [_table(table.header, map(table.row, table.lines))]
        parts += [f"- {_harmless(flag)}" for flag in flags]
    if refused:
        lines = [[of.file, of.method or "-", of.reason] for of in refused]
        parts += ["### Refused", _table(["file", "method", "reason"], lines)]
    return "\n\n".join(parts) + "\n"


def _table(header: list[str], rows: Iterable[list[str]]) -> str:
    return markdown([*map(_harmless, header)], [[*map(_harmless, row)] for row in rows])


def _harmless(text: str) -> str:
    """A text in which Markdown sees neither markup nor a mention nor HTML."""
    for sign, code in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "&#64;"), ("|", "&#124;")):
        text = text.replace(sign, code)
    text = re.sub(r"([\\`*_{}\[\]()!~$#])(?!\d+;)", r"\\\1", text)
    return text.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def csv_of(tables: Sequence[Table], refused: Sequence[Refused]) -> str:
    """One line a figure of an entry, and one a refused file."""
    rows = [row for table in tables for row in _figures(table)]
    gap = [""] * (len(FIGURE) + len(MORE) - 1)
    rows += [["", "", "", "", "", "", "", of.method, of.file, *gap, of.reason] for of in refused]
    return csv_text([[*ENTRY, *FIGURE, *MORE], *rows])


def _figures(table: Table) -> Iterator[list[str]]:
    for line in table.lines:
        entry, card = line.entry, line.entry.card
        board = "oracle" if table.oracle else "main"
        first = [card.dataset, card.content_id, entry.task_id, table.protocol, entry.set, board]
        first += [f"{line.rank:g}", card.method, entry.file]
        last = [str(len(entry.seeds)), card.rule, entry.badge, "; ".join(line.flags), ""]
        for name, score in entry.scores.items():
            numbers = (score.value, score.low, score.high, score.spread)
            digits = [repr(value) if math.isfinite(value) else "" for value in numbers]
            yield [*first, name, *digits, str(score.n), *last]
