"""From records to a report, and to each of its formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.comparisons import baseline_of, comparison_section, overview, pooled
from shiftdata.bench.reporting.facts import Facts, selected_scores
from shiftdata.bench.reporting.forms import stability_section, tables_of
from shiftdata.bench.reporting.kinds import KINDS, OTHER, Kind, capital, clean, family_of, unit_of
from shiftdata.bench.reporting.rankings import ranking_section
from shiftdata.bench.reporting.scores import Group, Score, Section, rule_label, standard_error
from shiftdata.bench.selection import RULES, Selected, rule_of
from shiftdata.errors import InputError
from shiftdata.evaluation.charts import svg_chart
from shiftdata.tables import Table, csv_text

#: Of the CSV, which has a line for each figure of each study under each rule.
COLUMNS = (
    "kind", "dataset", "content_id", "protocol", "task", "task_id", "method", "variant", "backbone", "rule",
    "oracle", "trial", "figure", "value", "standard_error", "unit", "n", "seeds", "commit", "version",
)  # fmt: skip
CHOICE = (
    "Each rule chooses a trial of every study, and a step of each of its seeds, from evaluations on the "
    "validation set; the numbers below are on the test set."
)
ORACLES = "A rule marked (oracle) has seen the test set: its numbers are bounds, and compete with no others."


@dataclass(frozen=True)
class Report:
    """Sections of tables; `numbers` has the lines of the CSV, one per figure of a study."""

    title: str
    sections: tuple[Section, ...]
    numbers: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        parts = [f"Report on {self.title}"]
        for section in self.sections:
            parts += [f"{section.title}\n{'=' * len(section.title)}", *section.notes]
            parts += [table.text(section.head(table)) for table in section.tables]
        return "\n\n".join(parts) + "\n"

    def to_markdown(self) -> str:
        parts = [f"# Report on {self.title}"]
        for section in self.sections:
            parts += [f"## {section.title}", *section.notes, *(table.markdown() for table in section.tables)]
        return "\n\n".join(parts) + "\n"

    def to_latex(self) -> str:
        """Every table as a `tabular` (package booktabs); notes are comments above it."""
        parts = []
        for section in self.sections:
            parts += [f"% {text}" for text in (section.title, *section.notes)]
            parts += [table.latex() for table in section.tables]
        return "\n\n".join(parts) + "\n"

    def to_csv(self) -> str:
        return csv_text([COLUMNS, *(row.values() for row in self.numbers)])

    def to_html(self) -> str:
        """One page without scripts, other files or network access; all text is escaped."""
        from shiftdata.evaluation.pages.shell import render_alone

        return render_alone("report.html", name=self.title, sections=self.sections, svg=svg_chart)


def report(records: Records, rules: Sequence[str] = (), *, baseline: str = "erm") -> Report:
    """Report on one sweep or several. Nothing is trained.

    Args:
        records: From `Records.read`.
        rules: Names in `RULES`; by default those that the sweeps name, else those of the papers.
        baseline: The method to compare others with; the first method if it is not there.

    """
    if not len(records):
        raise InputError("there is no run to report on: these folders have no records yet")
    facts = Facts(records)
    groups, refused = groups_of(facts, rules, baseline)
    findings = [
        Section(f"{capital(group.kind.name)}: {group.title}", tables_of(group), subject=group.title)
        for group in groups
    ]
    pools = pooled(groups, baseline)
    sections = [
        overview(pools),
        facts.runs(),
        _selection(list(dict.fromkeys(group.rule for group in groups))),
        *findings,
        comparison_section(pools),
        ranking_section(groups),
        stability_section(records, pools),
        facts.failures(refused),
        facts.versions(),
    ]
    numbers = tuple(row for group in groups for score in group.scores for row in _rows(score, facts))
    return Report(facts.title, tuple(of for of in sections if of.tables or of.notes), numbers)


def groups_of(facts: Facts, rules: Sequence[str], baseline: str) -> tuple[list[Group], list[Selected]]:
    """The scores that share tables, in the order of kinds; and the studies that no rule could choose from."""
    scores, refused = selected_scores(facts, rules)
    places: dict[tuple[Kind, str, str, str, str], list[Score]] = {}
    for score in scores:
        study, rule = score.selected.study, score.selected.rule
        family = family_of(study.task, score.kind)
        places.setdefault((score.kind, score.dataset, family, clean(study.backbone), rule), []).append(score)
    kinds, groups = [*KINDS, OTHER], []
    for key in sorted(places, key=lambda key: (kinds.index(key[0]), *key[1:4])):  # rules stay in their order
        first = baseline_of(places[key], baseline)
        ordered = sorted(places[key], key=lambda score: score.method != first)
        commits, versions = facts.code(at.run for score in ordered for at in score.selected.runs)
        groups.append(Group(*key, tuple(ordered), first, f"commit {commits}; shiftdata {versions}"))
    return groups, refused


def _selection(rules: Sequence[str]) -> Section:
    body = [[rule_label(rule), RULES[rule].about] for rule in rules]
    notes = (CHOICE, ORACLES) if any(rule_of(rule).oracle for rule in rules) else (CHOICE,)
    return Section("How models were chosen", (Table.plain("Rules", ["rule", "chooses by"], body),), notes)


def _rows(score: Score, facts: Facts) -> Iterator[dict[str, Any]]:
    """The lines of the CSV, one per figure of a study."""
    study, chosen = score.selected.study, score.selected
    commits, versions = facts.code(at.run for at in chosen.runs)
    for figure, values in score.figures.items():
        line = (
            score.kind.name, study.dataset, study.content_id, study.protocol, study.task, study.task_id,
            study.method, study.variant, study.backbone, rule_label(chosen.rule), rule_of(chosen.rule).oracle,
            chosen.trial, figure, float(values.mean()), standard_error(values), unit_of(figure),
            score.rows.get(figure, score.n), len(values), commits, versions,
        )  # fmt: skip
        yield dict(zip(COLUMNS, line, strict=True))
