"""From records to a report, and to each of its formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.comparisons import baseline_of, comparison_section
from shiftdata.bench.reporting.facts import Facts, Wanted
from shiftdata.bench.reporting.forms import tables_of
from shiftdata.bench.reporting.kinds import KINDS, OTHER, Kind, clean, family_of, unit_of
from shiftdata.bench.reporting.overview import overview
from shiftdata.bench.reporting.rankings import ranking_section
from shiftdata.bench.reporting.rows import Truth, failure_tables, same_rows
from shiftdata.bench.reporting.scores import Score, rule_label, scores_of, standard_error
from shiftdata.bench.reporting.stability import stability_section
from shiftdata.bench.reporting.tables import NUMBER, Group, Section, plain_table
from shiftdata.bench.selection import RULES, Selected, rule_of
from shiftdata.errors import InputError
from shiftdata.format.names import csv_cell
from shiftdata.papers.tables import Grid

#: Of the CSV, which has a line for each figure of each study under each rule.
COLUMNS = (
    "kind", "dataset", "content_id", "protocol", "task", "task_id", "method", "variant", "backbone", "rule",
    "oracle", "trial", "figure", "value", "standard_error", "unit", "n", "seeds", "commit", "version",
)  # fmt: skip


@dataclass(frozen=True)
class Report:
    """Sections of tables, in the order in which they are read; `numbers` has a mapping for each figure."""

    title: str
    sections: tuple[Section, ...]
    numbers: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        parts = [f"Report on {self.title}"]
        for section in self.sections:
            parts.append(f"{section.title}\n{'=' * len(section.title)}")
            parts += section.notes
            for table in section.tables:
                parts.append(section.head(table))
                parts += [_text(grid) for grid in table.grids]
                parts.append("\n".join(table.notes))
        return "\n\n".join(part for part in parts if part) + "\n"

    def to_markdown(self) -> str:
        parts = [f"# Report on {self.title}"]
        for section in self.sections:
            parts += [f"## {section.title}", *section.notes]
            for table in section.tables:
                parts += [grid.markdown() for grid in table.grids]
                parts.append("\n".join(f"- {note}" for note in table.notes))
        return "\n\n".join(part for part in parts if part) + "\n"

    def to_latex(self) -> str:
        """Every table as a `tabular` (package booktabs); notes are comments above it."""
        parts = []
        for section in self.sections:
            parts.append(f"% {section.title}")
            parts += [f"% {note}" for note in section.notes]
            for table in section.tables:
                parts += ["\n".join(f"% {note}" for note in table.notes)]
                parts += [grid.latex() for grid in table.grids]
        return "\n\n".join(part for part in parts if part) + "\n"

    def to_csv(self) -> str:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in self.numbers)
        return buffer.getvalue()

    def to_html(self) -> str:
        """One page that needs nothing else: no script, no file, no network."""
        from shiftdata.bench.reporting.page import page

        return page(self.title, self.sections)


def _text(grid: Grid) -> str:
    """A block as text: numbers to the right, texts to the left."""
    lines = [grid.header, *grid.body]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    left = [not at or any(not NUMBER.fullmatch(cell) for cell in of[1:]) for at, of in enumerate(columns)]
    cells = [
        [
            cell.ljust(width) if side else cell.rjust(width)
            for cell, width, side in zip(line, widths, left, strict=True)
        ]
        for line in lines
    ]
    return "\n".join("  ".join(line).rstrip() for line in cells)


def report(records: Records, rules: Sequence[str] = (), *, baseline: str = "erm") -> Report:
    """What a sweep, or several, came to. Nothing is trained.

    Args:
        records: of whole studies, from `Records.read`.
        rules: names in `RULES`; default: those that the sweeps name, else what the papers select by.
        baseline: the method that others are compared with; the first one where it is not there.

    """
    if not len(records):
        raise InputError("there is no run to report on: these folders have no records yet")
    facts = Facts(records)
    groups, refused = _groups(records, facts, rules, baseline)
    truth = Truth(records, facts)
    findings = [_finding(group, truth) for group in groups]
    pooled: dict[tuple[Kind, str, str], list[Score]] = {}
    for group in groups:
        pooled.setdefault((group.kind, group.backbone, group.rule), []).extend(group.scores)
    sections = [
        overview(pooled, baseline),
        facts.what(),
        _selection(list(dict.fromkeys(group.rule for group in groups))),
        *findings,
        comparison_section(pooled, baseline),
        same_rows(groups, truth),
        ranking_section(groups),
        stability_section(records, pooled),
        facts.failures(refused),
        facts.versions(),
    ]
    shown = tuple(one for one in sections if one.tables or one.notes)
    numbers = tuple(row for group in groups for one in group.scores for row in _rows(one, facts))
    return Report(facts.title(), shown, numbers)


def _groups(
    records: Records, facts: Facts, rules: Sequence[str], baseline: str
) -> tuple[list[Group], list[Selected]]:
    """The scores by what shares tables, in the order of the kinds; and what no rule could choose from."""
    wanted = Wanted(rules, facts)
    found: dict[tuple[Any, ...], list[Score]] = {}
    refused = []
    for rule in wanted.every:
        scores, lost = scores_of(records, rule)
        refused += [one for one in lost if wanted(one)]
        for one in scores:
            if wanted(one.selected):
                study = one.selected.study
                key = (one.kind, one.dataset, family_of(study.task, one.kind), clean(study.backbone), rule)
                found.setdefault(key, []).append(one)
    order = [*KINDS, OTHER]
    groups = []
    for key in sorted(found, key=lambda key: (order.index(key[0]), *key[1:4], wanted.every.index(key[4]))):
        kind, dataset, family, backbone, rule = key
        scores, code = found[key], facts.code(at.run for one in found[key] for at in one.selected.runs)
        first = baseline_of(scores, baseline)
        scores.sort(key=lambda one: one.method != first)
        groups.append(Group(kind, family, dataset, backbone, rule, tuple(scores), first, code))
    return groups, refused


def _finding(group: Group, truth: Truth) -> Section:
    tables = (*tables_of(group), *failure_tables(group, truth))
    title = f"{group.kind.name[:1].upper()}{group.kind.name[1:]}: {group.title}"
    return Section(title, tables, subject=group.title)


def _selection(rules: Sequence[str]) -> Section:
    """How models were chosen, and how numbers are to be read."""
    body = [[rule_label(rule), RULES[rule].about] for rule in rules]
    notes = [
        "Each rule chooses a trial of every study, and a step of each of its seeds, from evaluations on "
        "the set to select by; the numbers below are of the test.",
    ]
    if any(rule_of(rule).oracle for rule in rules):
        notes.append(
            "A rule marked (oracle) has seen the test: its numbers are bounds, and compete with no others."
        )
    return Section(
        "How models were chosen", (plain_table("Rules", ["rule", "chooses by"], body),), tuple(notes)
    )


def _rows(one: Score, facts: Facts) -> Iterator[dict[str, Any]]:
    """A line of the CSV for each figure of a study."""
    study, chosen = one.selected.study, one.selected
    runs = [at.run for at in chosen.runs]
    code = facts.code(runs).partition("; shiftdata ")
    for figure, values in one.figures.items():
        yield {
            "kind": one.kind.name, "dataset": study.dataset, "content_id": study.content_id,
            "protocol": study.protocol, "task": study.task, "task_id": study.task_id, "method": study.method,
            "variant": study.variant, "backbone": study.backbone, "rule": rule_label(chosen.rule),
            "oracle": rule_of(chosen.rule).oracle, "trial": chosen.trial, "figure": figure,
            "value": float(values.mean()), "standard_error": standard_error(values), "unit": unit_of(figure),
            "n": one.rows.get(figure, one.n), "seeds": len(values), "commit": code[0].removeprefix("commit "),
            "version": code[2],
        }  # fmt: skip
