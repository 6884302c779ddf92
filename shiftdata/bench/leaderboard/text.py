"""The leaderboard as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from shiftdata.bench.leaderboard.board import Refused, Table
from shiftdata.format.names import csv_cell
from shiftdata.metrics.records import markdown


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
    rows += [{"method": of.method, "file": of.file, "refused": of.reason} for of in refused]
    names = dict.fromkeys(name for row in rows for name in row) | {"refused": None}
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return buffer.getvalue()


def _figures(table: Table) -> Iterator[dict[str, str]]:
    for line in table.lines:
        entry, card = line.entry, line.entry.card
        for name, score in entry.scores.items():
            numbers = {of: getattr(score, of) for of in ("value", "low", "high", "spread")}
            yield {
                "dataset": card.dataset,
                "content_id": card.content_id,
                "task_id": entry.task_id,
                "protocol": table.protocol,
                "set": entry.set,
                "board": "oracle" if table.oracle else "main",
                "rank": f"{line.rank:g}",
                "method": card.method,
                "file": entry.file,
                "figure": name,
                **{of: repr(value) if math.isfinite(value) else "" for of, value in numbers.items()},
                "n": str(score.n),
                "seeds": str(len(entry.seeds)),
                "rule": card.rule,
                "selection": entry.badge,
                "flags": "; ".join(line.flags),
            }
