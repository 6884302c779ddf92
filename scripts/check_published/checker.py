"""The checker: everything that a paper prints twice, or that its own numbers decide, is computed again.

    reproduces          the recomputed value rounds to the printed one, or the statement holds
    within rounding     it does not, but the inputs were rounded themselves, and leave room for it
    depends             no such inputs give the printed value if an assumption is true, which is named
    inconsistent        no such inputs give the printed value: the printed numbers exclude each other

One module a paper says what is computed from what; `rules` and `judging` contain what they share. The metrics
are the package's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields

import pyarrow as pa
import pyarrow.compute as pc

from check_published import cns_bench, domainbed_v2, everywhere, nico, rlsbench, sma
from check_published.cells import Book
from check_published.judging import VERDICTS, Finding, Verdict
from shiftdata.bench.papers.numbers import KEY, numbers, published_tables, read_number
from shiftdata.errors import InputError, not_found
from shiftdata.stable import content_hash
from shiftdata.tables import aligned, csv_text

_CHECKS: tuple[Callable[[Book], Iterator[Finding]], ...] = tuple(
    module.checks for module in (sma, nico, cns_bench, domainbed_v2, rlsbench, everywhere)
)


@dataclass(frozen=True)
class Report:
    """A verdict for each number or statement that was checked, and what is wrong with the stored data."""

    findings: tuple[Finding, ...]
    problems: tuple[str, ...]

    def count(self, verdict: Verdict, paper: str | None = None) -> int:
        """How many findings have a verdict."""
        return sum(one.verdict == verdict and paper in (None, one.paper) for one in self.findings)

    @property
    def inconsistent(self) -> tuple[Finding, ...]:
        """What printed numbers exclude."""
        return tuple(one for one in self.findings if one.verdict == "inconsistent")

    @property
    def depends(self) -> dict[str, list[Finding]]:
        """What only an assumption excludes, by assumption."""
        by_assumption: dict[str, list[Finding]] = {}
        for one in self.findings:
            if one.verdict == "depends":
                by_assumption.setdefault(one.assumption, []).append(one)
        return by_assumption

    def of(self, paper: str | None = None, table: str | None = None) -> Report:
        """The findings of one paper, or one table of it."""
        papers = {one.paper for one in self.findings}
        if paper is not None and paper not in papers:
            raise not_found("paper", paper, papers)
        tables = {one.table for one in self.findings if paper in (None, one.paper)}
        if table is not None and table not in tables:
            raise not_found("table with checks", table, tables)
        chosen = [one for one in self.findings if paper in (None, one.paper) and table in (None, one.table)]
        return Report(tuple(chosen), self.problems)

    def counts(self) -> str:
        """Findings by paper and verdict."""
        papers = list(dict.fromkeys(one.paper for one in self.findings))
        rows = [[paper, *[str(self.count(verdict, paper)) for verdict in VERDICTS]] for paper in papers]
        total = ["all", *[str(self.count(verdict)) for verdict in VERDICTS]]
        return aligned(["paper", *VERDICTS], [*rows, total])

    def text(self) -> str:
        """The counts, then what is inconsistent, then what depends on an assumption."""
        lines = [self.counts(), ""]
        for one in self.inconsistent:
            note = f"; {one.note}" if one.note else ""
            lines.append(f"{one.place}\n    {one.check}: {one.values}{note}")
        for assumption, findings in self.depends.items():
            lines.append(f"\ndepends on: {assumption}")
            lines += [f"    {one.place}: {one.values}" for one in findings]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """Every finding, one a line."""
        names = [one.name for one in fields(Finding)]
        rows = (one.to_dict() for one in self.findings)
        return csv_text([names, *([row[name] for name in names] for row in rows)])

    def to_markdown(self) -> str:
        """What is inconsistent, then what depends on an assumption, as a table."""
        head = ["place", "check", "printed", "recomputed", "allowed", "verdict", "note", "assumption"]
        chosen = [*self.inconsistent, *(one for group in self.depends.values() for one in group)]
        rows = [[getattr(one, name) for name in head] for one in chosen]
        lines = [head, ["---"] * len(head), *rows]
        return "".join(f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |\n" for line in lines)


def check(rows: pa.Table) -> Report:
    """Compute again what can be computed from some results; see the module for the verdicts."""
    problems = tuple(_stored(rows))
    book = Book(rows)
    findings = [one for checks in _CHECKS for one in checks(book)]
    return Report(tuple(findings), problems)


def fingerprint(rows: pa.Table, paper: str, table: str) -> str:
    """A hash over one table's numbers as printed, with their places, in any order."""
    chosen = rows.filter(pc.and_(pc.equal(rows["paper"], paper), pc.equal(rows["table"], table)))
    lines = sorted("\t".join(row.values()) for row in chosen.select([*KEY, "printed"]).to_pylist())
    return content_hash(*lines)


def _stored(rows: pa.Table) -> Iterator[str]:
    """What is wrong with the data: values that are not the printed ones, tables that were changed."""
    yield from _values(rows.to_pylist())
    present = set(zip(rows["paper"].to_pylist(), rows["table"].to_pylist(), strict=True))
    for table in published_tables():
        if (table.paper, table.table) not in present:
            continue
        if fingerprint(rows, table.paper, table.table) != table.sha256:
            yield (
                f"{table.paper}, table {table.table}: these are not the {table.numbers} numbers that were "
                f"extracted from the paper{_changed(rows, table.paper, table.table)}"
            )


def _changed(rows: pa.Table, paper: str, table: str) -> str:
    """Where some rows of a table differ from the shipped ones, in words; at most three places."""
    own, shipped = (_printed(one, paper, table) for one in (rows, numbers(paper)))
    places = [place for place in own | shipped if own.get(place) != shipped.get(place)]
    named = [
        f"{place} {own.get(place, 'missing')} (extracted: {shipped.get(place, 'nothing')})"
        for place in places
    ]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return f": {'; '.join(named[:3])}{more}" if named else ""


def _printed(rows: pa.Table, paper: str, table: str) -> dict[str, str]:
    return {
        ", ".join(row[name] for name in KEY[2:] if row[name]): row["printed"]
        for row in rows.to_pylist()
        if (row["paper"], row["table"]) == (paper, table)
    }


def _values(rows: Iterable[dict[str, object]]) -> Iterator[str]:
    seen = set()
    for row in rows:
        place = ", ".join(str(row[name]) for name in KEY if row[name])
        if place in seen:
            yield f"{place}: two numbers for one place"
        seen.add(place)
        try:
            value, spread = read_number(str(row["printed"]))
        except InputError as error:
            yield f"{place}: {error}"
            continue
        stored = (row["value"], row["spread"])
        if stored != (value, spread) or not all(math.isfinite(one) for one in (value, spread or 0.0)):
            yield f"{place}: stored {stored[0]} and {stored[1]}, printed {row['printed']}"
