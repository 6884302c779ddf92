"""Figures that imported records give again, next to those that the paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shiftdata.bench.papers.numbers import read_number
from shiftdata.bench.records import IMPORTED, Records
from shiftdata.bench.reporting.layouts import layout_of
from shiftdata.bench.reporting.printed import Filled
from shiftdata.bench.reporting.scores import Group, Section, rule_label
from shiftdata.bench.selection import rule_of
from shiftdata.tables import Table

#: The tables that runs of authors can fill.
IMPORTED_TABLES = ("cns-bench 2", "cns-bench 3", "rlsbench 2", "rlsbench 3", "rlsbench 5")
#: The differences that are listed, the largest ones.
MOST = 12
NOTE = (
    "A figure is as printed if it differs by at most half of the last digit. The paper's numbers may be of "
    "other files, or of another rule of selection."
)
#: A number of a paper, and what the imported files give for it.
Pair = tuple[Mapping[str, Any], float]


def published_section(records: Records, groups: Sequence[Group]) -> Section:
    """A table for each of the papers' tables whose figures were imported, with the largest differences."""
    tables = []
    imported = [group for group in groups if group.scores[0].selected.study.content_id.startswith(IMPORTED)]
    for rule in dict.fromkeys(group.rule for group in imported if not rule_of(group.rule).oracle):
        for layout, number in map(layout_of, IMPORTED_TABLES):
            mine = [group for group in imported if group.rule == rule and group.kind.name == layout.kind]
            lines = Filled(layout, number, records, mine).numbers() if mine else []
            pairs: dict[str, list[Pair]] = {}
            for line in lines:
                if line["printed"]:
                    title = f"{layout.paper}, table {number}, {line['metric']}, {rule_label(rule)}"
                    pairs.setdefault(title, []).append((line, line["value"]))
            tables += [_table(title, of) for title, of in pairs.items()]
    return Section("Next to the papers' numbers", tuple(tables), (NOTE,) if tables else ())


def _table(title: str, pairs: Sequence[Pair]) -> Table:
    # Zeros at the end are not printed: the longest number shows the digits of its table.
    digits = max(len(row["printed"].partition(".")[2]) for row, _ in pairs)
    unequal = [(value - read_number(row["printed"])[0], row, value) for row, value in pairs]
    unequal = [of for of in unequal if abs(of[0]) > 0.5 * 10**-digits + 1e-9]
    unequal.sort(key=lambda of: -abs(of[0]))
    body = [
        [row["row"], row["column"], row["printed"], f"{value:.{digits + 1}f}", f"{off:+.{digits + 1}f}"]
        for off, row, value in unequal[:MOST]
    ]
    equal = f"{len(pairs) - len(unequal):,} of {len(pairs):,} figures are as printed"
    notes = [f"{len(unequal) - MOST:,} smaller differences are left out."] if len(unequal) > MOST else []
    return Table.plain(
        f"{title}: {equal}", ["row", "column", "printed", "imported", "difference"], body, notes
    )
