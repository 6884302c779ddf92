"""Figures that imported records give again, next to those that the paper prints."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shiftdata.bench.papers import published
from shiftdata.bench.records import IMPORTED
from shiftdata.bench.reporting.comparisons import CORRECTIONS, renamed
from shiftdata.bench.reporting.scores import Group, Score, Section, rule_label
from shiftdata.bench.selection import rule_of
from shiftdata.tables import Table

#: The differences that are listed, the largest ones.
MOST = 12
NOTE = (
    "A figure is as printed if it differs by at most half of the last digit. The paper's numbers may be of "
    "other files, or of another rule of selection."
)
#: A number of a paper, and what the imported files give for it.
Pair = tuple[Mapping[str, Any], float]


def published_section(groups: Sequence[Group]) -> Section:
    """A table for each of the papers' tables whose figures were imported, with the largest differences."""
    tables = []
    for rule in dict.fromkeys(group.rule for group in groups if not rule_of(group.rule).oracle):
        scores = [score for group in groups if group.rule == rule for score in group.scores]
        scores = [score for score in scores if score.selected.study.content_id.startswith(IMPORTED)]
        pairs: dict[str, list[Pair]] = {}
        for row, value in (*_continuous(scores), *_label_shift(scores)):
            title = f"{row['paper']}, table {row['table']}, {row['metric']}, {rule_label(rule)}"
            pairs.setdefault(title, []).append((row, value))
        tables += [_table(title, of) for title, of in pairs.items()]
    return Section("Next to the papers' numbers", tuple(tables), (NOTE,) if tables else ())


def _table(title: str, pairs: Sequence[Pair]) -> Table:
    # Zeros at the end are not printed: the longest number shows the digits of its table.
    digits = max(len(row["printed"].partition(".")[2]) for row, _ in pairs)
    unequal = [(value - row["value"], row, value) for row, value in pairs]
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


def _continuous(scores: Sequence[Score]) -> Iterator[Pair]:
    """CNS-Bench: accuracies and drops by scale, and the shares of first failures, as shares of 1."""
    of_method = {score.method: score for score in scores if score.kind.name == "continuous shift"}
    chosen = (row for row in published("cns-bench") if row["method"] in of_method) if of_method else ()
    for row in chosen:
        figures = {name: float(of.mean()) / 100 for name, of in of_method[row["method"]].figures.items()}
        values = {name.removeprefix("rows@"): of for name, of in figures.items() if name.startswith("rows@")}
        values["avg"] = sum(values.values()) / max(1, len(values))
        value = values.get(row["column"])
        if row["metric"] == "failure share":
            value = figures.get(f"failures@{row['column']}")
        elif row["metric"] == "accuracy drop" and value is not None:
            value = values["0"] - value if "0" in values else None
        if value is not None:
            yield row, value


def _label_shift(scores: Sequence[Score]) -> Iterator[Pair]:
    """RLSbench: the mean over the targets, label shifts and seeds of a dataset."""

    def plain(name: str) -> str:  # "Retiring Adults" is retiring_adult
        return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("s")

    means = defaultdict[tuple[str, str], list[float]](list)
    for score in scores:
        if score.kind.name == "label shift":
            means[plain(score.dataset), score.method].append(float(score.main.mean()))
    rows = renamed(published("rlsbench", part=list(CORRECTIONS), metric="accuracy")) if means else ()
    for row in rows:
        if values := means.get((plain(row["column"]), row["method"])):
            yield row, float(np.mean(values))
