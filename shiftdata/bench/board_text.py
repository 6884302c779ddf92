"""The leaderboard as Markdown and CSV, and the papers' numbers that fit a task."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from typing import Any

from shiftdata.bench.board import Board, Ranked, Table, cell
from shiftdata.metrics.records import number
from shiftdata.papers import Results, published, ranking
from shiftdata.tables import csv_cell, markdown

#: Which printed numbers belong to the tasks of a protocol. Their pictures and backbones are others.
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "uda": {"paper": "sma", "metric": "accuracy", "row": "mean"},
    "unida": {"paper": "sma", "metric": "H-score", "row": "mean"},
    "classic-dg": {"paper": "nico++", "table": 2, "column": "Avg."},
    "flexible-dg": {"paper": "nico++", "table": 3},
    "continuous": {"paper": "cns-bench", "table": 2, "part": "accuracy drop", "column": "avg"},
    "domainbed": {"paper": "domainbed-v2", "table": 5, "metric": "accuracy"},
    "domainbed-v2": {"paper": "domainbed-v2", "table": 5, "metric": "accuracy"},
    "leave-one-domain-out": {"paper": "domainbed-v2", "table": 5, "metric": "accuracy"},
    "label-shift": {"paper": "rlsbench", "table": 4},
}
#: What papers call methods that have other names here.
ALIASES = {
    "deepall": "erm", "noadapt": "erm", "uda": "erm", "sourcewoaug": "erm",
    "acc": "subgiid", "worstacc": "subgiidworst", "top3worstacc": "subgiidworstm",
}  # fmt: skip


def published_for(table: Table) -> Results | None:
    """The printed numbers of the paper that a task comes from, where it prints some."""
    name = table.task.partition("@")[0]
    if name == "group-fairness":
        k = re.search(r"\bk=(\d+)", table.task)
        row = f"K={k[1]}" if k else ""
        every = published("sma", 3)
        return every.where(row=row) if row in every.rows["row"].to_pylist() else None
    return published(**PUBLISHED[name]) if name in PUBLISHED else None


def printed_of(table: Table) -> Mapping[str, str]:
    """Of each entry's file what the paper prints of its method: the mean over its columns, and the rank."""
    results = published_for(table)
    if results is None:
        return {}
    (standings,) = ranking(results).standings.values()
    known = {ALIASES.get(_plain(one.method), _plain(one.method)): one for one in standings}
    made = {}
    for line in table.lines:
        card = line.entry.card
        one = known.get(_plain(card.method)) or known.get(_plain(card.method + card.rule))
        if one is not None:
            made[line.entry.file] = f"{number(one.value, 2)} (rank {one.rank:g} of {len(standings)})"
    return made


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def header_of(table: Table, printed: Mapping[str, str]) -> list[str]:
    """The columns of a table; `printed` is what `printed_of` gives."""
    return ["method", "rank", *table.figures, "seeds", "selection", *(["printed"] if printed else [])]


def row_of(table: Table, line: Ranked, printed: Mapping[str, str]) -> list[str]:
    """A line's cells, as `header_of` names them."""
    entry = line.entry
    return [
        entry.card.method,
        f"{line.rank:g}",
        *(cell(entry.scores[name]) for name in table.figures),
        f"{len(entry.seeds)}",
        f"{entry.card.rule}: {entry.badge}",
        *([printed.get(entry.file, "-")] if printed else []),
    ]


def title_of(table: Table) -> str:
    """The dataset, the protocol and the set."""
    apart = " (oracle: selection saw the test)" if table.oracle else ""
    return f"{table.dataset}, {table.protocol or 'canonical'}, {table.set}{apart}"


def about(table: Table) -> str:
    """What a reader must know to read a table alone."""
    leaks = " An origin is on two of its sides, as in its paper: results are too good." if table.leaky else ""
    return (
        f"{table.task}, {table.rows:,} rows, base {table.base or 'default'}, content_id "
        f"{table.content_id[:16]}, task {table.task_id[:16]}. Ranked by {table.headline}, the mean over "
        f"seeds; in brackets 95 % intervals over origins, the ends averaged over seeds.{leaks}"
    )


def markdown_of(board: Board) -> str:
    """Every table and what was refused; texts of submissions are shown as they are, none as markup."""
    parts = []
    for table in board.tables:
        printed = printed_of(table)
        rows = [[_harmless(one) for one in row_of(table, line, printed)] for line in table.lines]
        flags = [f"{line.entry.file}: {flag}" for line in table.lines for flag in line.flags]
        parts += [f"### {_harmless(title_of(table))}", _harmless(about(table))]
        parts += [_table(header_of(table, printed), rows), *(f"- {_harmless(one)}" for one in flags)]
    if board.refused:
        lines = [[one.file, one.method or "-", one.reason] for one in board.refused]
        parts += [
            "### Refused",
            _table(["file", "method", "reason"], [list(map(_harmless, one)) for one in lines]),
        ]
    return "\n\n".join(parts) + "\n"


def _table(header: list[str], rows: list[list[str]]) -> str:
    return markdown([_harmless(one) for one in header], rows)


def _harmless(text: str) -> str:
    """A text in which Markdown sees neither markup nor a mention nor HTML."""
    for sign, other in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "&#64;"), ("|", "&#124;")):
        text = text.replace(sign, other)
    text = re.sub(r"([\\`*_{}\[\]()!~$#])(?!\d+;)", r"\\\1", text)
    return text.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def csv_of(board: Board) -> str:
    """One line a figure of an entry, and one a refused file."""
    buffer = io.StringIO()
    names = [
        "dataset",
        "content_id",
        "task_id",
        "protocol",
        "set",
        "board",
        "rank",
        "method",
        "file",
        "figure",
    ]
    names += ["value", "low", "high", "spread", "n", "seeds", "rule", "selection", "flags", "refused"]
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    for table in board.tables:
        for line in table.lines:
            entry = line.entry
            same = {"dataset": table.dataset, "content_id": table.content_id, "task_id": table.task_id}
            same |= {
                "protocol": table.protocol,
                "set": table.set,
                "board": "oracle" if table.oracle else "main",
            }
            same |= {"rank": f"{line.rank:g}", "method": entry.card.method, "file": entry.file}
            same |= {"rule": entry.card.rule, "selection": entry.badge, "flags": "; ".join(line.flags)}
            for name, one in entry.scores.items():
                values = {"value": one.value, "low": one.low, "high": one.high, "spread": one.spread}
                digits = {key: repr(value) if math.isfinite(value) else "" for key, value in values.items()}
                row = same | digits | {"figure": name, "n": str(one.n), "seeds": str(len(entry.seeds))}
                writer.writerow({key: csv_cell(value) for key, value in row.items()})
    for left in board.refused:
        row = {"file": left.file, "method": left.method, "refused": left.reason}
        writer.writerow({key: csv_cell(value) for key, value in row.items()})
    return buffer.getvalue()
