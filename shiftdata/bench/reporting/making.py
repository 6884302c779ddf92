"""From records to a report, and to each of its formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.comparisons import baseline_of, comparison_section, overview
from shiftdata.bench.reporting.facts import Facts, Wanted
from shiftdata.bench.reporting.forms import tables_of
from shiftdata.bench.reporting.kinds import KINDS, OTHER, Kind, clean, family_of, unit_of
from shiftdata.bench.reporting.rankings import ranking_section
from shiftdata.bench.reporting.rows import Truth, failure_tables, same_rows
from shiftdata.bench.reporting.scores import Group, Score, Section, rule_label, scores_of, standard_error
from shiftdata.bench.reporting.stability import stability_section
from shiftdata.bench.selection import RULES, Selected, rule_of
from shiftdata.charts import WIDTHS, chart, figure_files, svg_figure
from shiftdata.errors import InputError
from shiftdata.files import write_bytes, write_text
from shiftdata.tables import Table, csv_text, tex

#: Of the CSV, which has a line for each figure of each study under each rule.
COLUMNS = (
    "kind", "dataset", "content_id", "protocol", "task", "task_id", "method", "variant", "backbone", "rule",
    "oracle", "trial", "figure", "value", "standard_error", "unit", "n", "seeds", "commit", "version",
)  # fmt: skip
CAPTIONS = "captions.tex"
#: Of a chart on the page, in inches: texts of 8 points are large enough where it fills a page.
PAGE_WIDTH = 8
#: How numbers are to be read.
CHOICE = (
    "Each rule chooses a trial of every study, and a step of each of its seeds, from evaluations on "
    "the set to select by; the numbers below are of the test."
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
        from shiftdata.pages.shell import render_alone

        return render_alone("report.html", name=self.title, sections=self.sections, svg=_svg)

    @property
    def charts(self) -> list[tuple[Section, Table]]:
        """The tables that can be drawn: of two numbers or more."""
        return [(section, table) for section in self.sections for table in section.tables if _drawable(table)]

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
                captions[name] = _caption(name, table, width)
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
    findings = [_finding(group, truth) for group in groups]
    pools: dict[tuple[Kind, str, str], list[Score]] = {}
    for group in groups:
        pools.setdefault((group.kind, group.backbone, group.rule), []).extend(group.scores)
    sections = [
        overview(pools, baseline),
        facts.runs(),
        _selection(list(dict.fromkeys(group.rule for group in groups))),
        *findings,
        comparison_section(pools, baseline),
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
    wanted = Wanted(rules, facts)
    found: dict[tuple[Kind, str, str, str, str], list[Score]] = {}
    refused = []
    for rule in wanted.every:
        scores, lost = scores_of(records, rule)
        refused += [selected for selected in lost if wanted(selected)]
        for score in scores:
            if wanted(score.selected):
                study = score.selected.study
                family = family_of(study.task, score.kind)
                found.setdefault((score.kind, score.dataset, family, clean(study.backbone), rule), []).append(
                    score
                )
    kinds, groups = [*KINDS, OTHER], []
    order = sorted(found, key=lambda key: (kinds.index(key[0]), *key[1:4], wanted.every.index(key[4])))
    for key in order:
        kind, dataset, family, backbone, rule = key
        first = baseline_of(found[key], baseline)
        scores = sorted(found[key], key=lambda score: score.method != first)
        commits, versions = facts.code(at.run for score in scores for at in score.selected.runs)
        code = f"commit {commits}; shiftdata {versions}"
        groups.append(Group(kind, family, dataset, backbone, rule, tuple(scores), first, code))
    return groups, refused


def _finding(group: Group, truth: Truth) -> Section:
    tables = (*tables_of(group), *failure_tables(group, truth))
    title = f"{group.kind.name[:1].upper()}{group.kind.name[1:]}: {group.title}"
    return Section(title, tables, subject=group.title)


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


def _drawable(table: Table) -> bool:
    return sum(bool(cell) for block in table.drawn for _, *cells in block.body for cell in cells) > 1


def _svg(table: Table, name: str) -> str:
    """A table as a chart; nothing where its numbers are too many to read, or a single one."""
    try:
        figure = chart([table], PAGE_WIDTH, titles=False) if _drawable(table) else None
    except InputError:
        return ""
    about = f"Chart of {table.title}. The same numbers are in the table below."
    return svg_figure(figure, name, about) if figure is not None else ""


def _caption(name: str, table: Table, width: float) -> str:
    kind = "figure" if width <= WIDTHS[0] else "figure*"
    said = tex(" ".join([f"{table.title}.", *table.notes]))
    return (
        f"\\begin{{{kind}}}\n  \\centering\n  \\includegraphics{{{name}.pdf}}\n"
        f"  \\caption{{{said}}}\n  \\label{{fig:{name}}}\n\\end{{{kind}}}\n"
    )
