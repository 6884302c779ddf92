"""From records to a report, and to each of its formats; from two records to what differs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from shiftdata.bench.records import Records, Study
from shiftdata.bench.reporting.comparisons import baseline_of, comparison_section, overview, pooled
from shiftdata.bench.reporting.facts import Facts, listed, selected_scores
from shiftdata.bench.reporting.forms import stability_section, tables_of
from shiftdata.bench.reporting.kinds import KINDS, OTHER, Kind, capital, clean, family_of, title_of, unit_of
from shiftdata.bench.reporting.rankings import ranking_section
from shiftdata.bench.reporting.rows import Truth, same_rows
from shiftdata.bench.reporting.scores import (
    SHORT,
    Group,
    Score,
    Section,
    cell,
    rule_label,
    standard_error,
    with_variant,
)
from shiftdata.bench.selection import RULES, Selected, rule_of
from shiftdata.errors import InputError
from shiftdata.evaluation.charts import WIDTHS, figure_files, latex_figure, svg_chart
from shiftdata.files import write_bytes, write_text
from shiftdata.tables import Table, csv_text

#: Of the CSV, which has a line for each figure of each study under each rule.
COLUMNS = (
    "kind", "dataset", "content_id", "protocol", "task", "task_id", "method", "variant", "backbone", "rule",
    "oracle", "trial", "figure", "value", "standard_error", "unit", "n", "seeds", "commit", "version",
)  # fmt: skip
CAPTIONS = "captions.tex"
#: What a study is called in two sweeps; whether its data and code are the same is what is asked.
Name: TypeAlias = tuple[str, ...]
#: Lines of a table of differences.
MOST_DIFFERENT = 200
#: How numbers are to be read.
CHOICE = (
    "Each rule chooses a trial of every study, and a step of each of its seeds, from evaluations on "
    "the validation set; the numbers below are of the test."
)
ORACLES = "A rule marked (oracle) has seen the test: its numbers are bounds, and compete with no others."


@dataclass(frozen=True)
class Report:
    """Sections of tables, in the order in which they are read; `numbers` has a mapping for each figure."""

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
        """One page that needs nothing else: no script, no file, no network; every text in it is escaped."""
        from shiftdata.evaluation.pages.shell import render_alone

        return render_alone("report.html", name=self.title, sections=self.sections, svg=svg_chart)

    @property
    def charts(self) -> list[tuple[Section, Table]]:
        """The tables that can be drawn: of two numbers or more."""
        return [(section, table) for section in self.sections for table in section.tables if table.drawable]

    def write_figures(
        self, folder: Path, width: float = WIDTHS[0], step: Callable[[], object] = lambda: None
    ) -> list[str]:
        """Write each chart as SVG and PDF, and LaTeX that includes them; return the names of the figures.

        Args:
            folder: where to; files of the same names are replaced.
            width: in inches: 3.25 fills a column, 6.75 a page of two.
            step: is called after each chart of the report.

        """
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: figures are several, give a folder for them")
        folder.mkdir(parents=True, exist_ok=True)
        captions: dict[str, str] = {}
        for section, table in self.charts:
            said = re.sub(r"[^a-z0-9]+", "-", f"{section.title} {section.head(table)}".lower())
            name = f"{len(captions) + 1:02}-{said.strip('-')[:90]}"  # which every system and LaTeX takes
            try:
                files = figure_files(table, width, name)
            except InputError:  # too much for one figure: the table has it
                files = {}
            for ending, data in files.items():
                write_bytes(folder / f"{name}.{ending}", data)
                captions[name] = latex_figure(table, width, name)
            step()
        if not captions:
            raise InputError(f"{self.title} has no chart: a figure needs two numbers or more of one kind")
        write_text(folder / CAPTIONS, "\n".join(captions.values()))
        return list(captions)


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
    groups, refused = groups_of(records, facts, rules, baseline)
    truth = Truth(records, facts)
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
        same_rows(groups, truth),
        ranking_section(groups),
        stability_section(records, pools),
        facts.failures(refused),
        facts.versions(),
    ]
    shown = tuple(section for section in sections if section.tables or section.notes)
    numbers = tuple(row for group in groups for score in group.scores for row in _rows(score, facts))
    return Report(facts.title, shown, numbers)


def groups_of(
    records: Records, facts: Facts, rules: Sequence[str], baseline: str
) -> tuple[list[Group], list[Selected]]:
    """The scores by what shares tables, in the order of the kinds; and what no rule could choose from."""
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
    """How models were chosen, and how numbers are to be read."""
    body = [[rule_label(rule), RULES[rule].about] for rule in rules]
    notes = (CHOICE, ORACLES) if any(rule_of(rule).oracle for rule in rules) else (CHOICE,)
    return Section("How models were chosen", (Table.plain("Rules", ["rule", "chooses by"], body),), notes)


def _rows(score: Score, facts: Facts) -> Iterator[dict[str, Any]]:
    """A line of the CSV for each figure of a study."""
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


def difference(
    a: Records, b: Records, rules: Sequence[str] = (), names: tuple[str, str] = ("A", "B")
) -> Report:
    """Studies in one alone, numbers that moved by more than their spread, other selections and versions.

    Args:
        a: the records before.
        b: the records after.
        rules: names in `RULES`; default: those that the sweeps name, else what the papers select by.
        names: what the two are called.

    """
    facts = Facts(a), Facts(b)
    sections = [_studies(a, b, names), *_moved(facts, rules, names), _versions(facts, names)]
    return Report(f"{names[0]} and {names[1]}", tuple(sections), ())


def _name_of(study: Study) -> Name:
    return clean(study.dataset), clean(study.task), study.method, study.variant, clean(study.backbone)


def _shown(name: Name) -> str:
    return clean(f"{with_variant(name[2], name[3])} on {name[1]} of {name[0]}, {name[4]}")


def _studies(a: Records, b: Records, names: tuple[str, str]) -> Section:
    first, second = (
        {_name_of(study): (study.content_id, study.task_id) for study in records.studies()}
        for records in (a, b)
    )
    body = [[_shown(name), f"{names[0]} alone"] for name in first if name not in second]
    body += [[_shown(name), f"{names[1]} alone"] for name in second if name not in first]
    for name, mine in first.items():
        theirs = second.get(name, mine)
        if mine != theirs:
            differs, place = ("data", 0) if mine[0] != theirs[0] else ("rows", 1)
            ids = mine[place][:SHORT], theirs[place][:SHORT]
            body.append([_shown(name), f"both, of other {differs}: {ids[0]} and {ids[1]}"])
    counts = (
        f"{len(first.keys() & second.keys()):,} studies are in both, of {len(first):,} in {names[0]} and "
        f"{len(second):,} in {names[1]}.",
    )
    tables = listed("Studies that are not the same", ["study", "in"], body, MOST_DIFFERENT)
    return Section("Studies", tables, counts)


def _moved(facts: tuple[Facts, Facts], rules: Sequence[str], names: tuple[str, str]) -> Iterator[Section]:
    """Numbers and selections that differ, over the rules of both."""
    before, after = (
        {
            (score.selected.rule, _name_of(score.selected.study)): score
            for score in selected_scores(of, rules)[0]
        }
        for of in facts
    )
    numbers: list[list[str]] = []
    chosen: list[list[str]] = []
    shared = [key for key in before if key in after]
    for key in shared:
        head = [_shown(key[1]), rule_label(key[0])]
        numbers += [[*head, *cells] for cells in _number(before[key], after[key])]
        chosen += [[*head, *cells] for cells in _chosen(facts, (before[key], after[key]))]
    notes = (
        f"{len(shared):,} selected studies were compared. A number is listed where it moved by more than the "
        "standard errors of both over seeds, joined (the root of the sum of squares); one without a "
        "spread, where it moved at all.",
    )
    header = ["study", "rule", "figure", *names, "moved by", "their spread"]
    yield Section("Numbers that moved", listed("Numbers", header, numbers, MOST_DIFFERENT), notes)
    tables = listed("Selections", ["study", "rule", *names], chosen, MOST_DIFFERENT)
    yield Section("Selections that changed", tables, () if chosen else ("None.",))


def _number(before: Score, after: Score) -> Iterator[list[str]]:
    """The main figure of a study, if it moved."""
    figure = before.kind.main
    cells = [cell(float(of.main.mean()), standard_error(of.main), figure) for of in (before, after)]
    moved = cells[1].value - cells[0].value
    spread = math.hypot(*(0.0 if math.isnan(of.spread) else of.spread for of in cells))
    if not math.isnan(moved) and abs(moved) > max(spread, 1e-9):
        known = f"{spread:.2f}" if spread else "-"
        yield [title_of(figure), *(of.text for of in cells), f"{moved:+.2f}", known]


def _chosen(facts: tuple[Facts, Facts], pair: tuple[Score, Score]) -> Iterator[list[str]]:
    """Which trial, steps and settings were chosen, as far as they differ."""
    choices = [_choice(of.records, score) for of, score in zip(facts, pair, strict=True)]
    names = dict.fromkeys(name for of in choices for name in of)
    differ = [name for name in names if choices[0].get(name) != choices[1].get(name)]
    if differ:
        yield [", ".join(f"{name} {of.get(name, '-')}" for name in differ) for of in choices]


def _choice(records: Records, score: Score) -> dict[str, str]:
    runs = score.selected.runs
    settings = {name: json.loads(records.column(name)[runs[0].run]) for name in ("training", "hyper")}
    steps = " ".join(map(str, sorted({at.step for at in runs})))
    shown = {clean(str(name)): clean(f"{value}") for of in settings.values() for name, value in of.items()}
    return {"trial": f"{score.selected.trial}", "steps": steps, **shown}


def _versions(facts: tuple[Facts, Facts], names: tuple[str, str]) -> Section:
    """Versions, commits, devices and code versions that are not in both."""
    first, second = ({name: ", ".join(sorted(values)) for name, values in of.exact.items()} for of in facts)
    # A method of one sweep alone is listed as a study: its code has nothing to differ from.
    body = [
        [name, first.get(name, "-"), second.get(name, "-")]
        for name in first | second
        if first.get(name) != second.get(name)
        and (not name.startswith("code of ") or (name in first and name in second))
    ]
    tables = listed("Versions", ["", *names], body, MOST_DIFFERENT)
    return Section("Versions that differ", tables, () if body else ("None.",))
