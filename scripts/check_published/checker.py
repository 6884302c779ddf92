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
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from check_published import cns_bench, domainbed_v2, everywhere, nico, rlsbench, sma
from check_published.cells import Book
from check_published.judging import VERDICTS, Finding, Verdict
from shiftdata.bench.papers.numbers import KEY, TEXT, published_tables, read_number
from shiftdata.errors import InputError
from shiftdata.stable import content_hash
from shiftdata.tables import aligned

_CHECKS: tuple[Callable[[Book], Iterator[Finding]], ...] = tuple(
    module.checks for module in (sma, nico, cns_bench, domainbed_v2, rlsbench, everywhere)
)


@dataclass(frozen=True)
class Report:
    """A verdict for each number or statement that was checked, and what is wrong with the stored data."""

    findings: tuple[Finding, ...]
    problems: tuple[str, ...]

    def count(self, verdict: Verdict, paper: str | None = None) -> int:
        """Count the findings with a verdict."""
        return sum(finding.verdict == verdict and paper in (None, finding.paper) for finding in self.findings)

    @property
    def inconsistent(self) -> tuple[Finding, ...]:
        """The findings that printed numbers exclude."""
        return tuple(finding for finding in self.findings if finding.verdict == "inconsistent")

    @property
    def depends(self) -> dict[str, list[Finding]]:
        """The findings that only an assumption excludes, by assumption."""
        by_assumption: dict[str, list[Finding]] = {}
        for finding in self.findings:
            if finding.verdict == "depends":
                by_assumption.setdefault(finding.assumption, []).append(finding)
        return by_assumption

    def counts(self) -> str:
        """Findings by paper and verdict."""
        papers = list(dict.fromkeys(finding.paper for finding in self.findings))
        rows = [[paper, *[str(self.count(verdict, paper)) for verdict in VERDICTS]] for paper in papers]
        total = ["all", *[str(self.count(verdict)) for verdict in VERDICTS]]
        return aligned(["paper", *VERDICTS], [*rows, total])

    def text(self) -> str:
        """The counts, then what is inconsistent, then what depends on an assumption."""
        lines = [self.counts(), ""]
        for finding in self.inconsistent:
            note = f"; {finding.note}" if finding.note else ""
            lines.append(f"{finding.place}\n    {finding.check}: {finding.values}{note}")
        for assumption, findings in self.depends.items():
            lines.append(f"\ndepends on: {assumption}")
            lines += [f"    {finding.place}: {finding.values}" for finding in findings]
        return "\n".join(lines) + "\n"


def check(rows: pa.Table) -> Report:
    """Compute again what can be computed from some results; see the module for the verdicts."""
    problems = tuple(_stored(rows))
    book = Book(rows)
    findings = [finding for checks in _CHECKS for finding in checks(book)]
    return Report(tuple(findings), problems)


def fingerprint(rows: pa.Table, paper: str, table: str) -> str:
    """A hash over one table's numbers as printed, with their places, in any order."""
    chosen = rows.filter(pc.and_(pc.equal(rows["paper"], paper), pc.equal(rows["table"], table)))
    lines = sorted("\t".join(row.values()) for row in chosen.select([*KEY, "printed"]).to_pylist())
    return content_hash(*lines)


def _stored(rows: pa.Table) -> Iterator[str]:
    """Problems of the data: values that are not the printed ones, tables that were changed."""
    yield from _values(rows.to_pylist())
    present = set(zip(rows["paper"].to_pylist(), rows["table"].to_pylist(), strict=True))
    for table in published_tables():
        if (table.paper, table.table) not in present:
            continue
        if fingerprint(rows, table.paper, table.table) != table.sha256:
            yield (
                f"{table.paper}, table {table.table}: these are not the {table.numbers} numbers that were "
                "extracted from the paper"
            )


def _values(rows: Iterable[dict[str, object]]) -> Iterator[str]:
    seen = set()
    for row in rows:
        place = ", ".join(str(row[name]) for name in KEY if row[name])
        if place in seen:
            yield f"{place}: two numbers for one place"
        seen.add(place)
        if row["unit"] == TEXT and row["value"] is None:
            continue
        try:
            value, spread = read_number(str(row["printed"]))
        except InputError as error:
            yield f"{place}: {error}"
            continue
        stored = (row["value"], row["spread"])
        if stored != (value, spread) or not all(math.isfinite(one) for one in (value, spread or 0.0)):
            yield f"{place}: stored {stored[0]} and {stored[1]}, printed {row['printed']}"
