"""From records to a report, and to each of its formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shiftdata.bench.records import IMPORTED, Records, part_of
from shiftdata.bench.reporting.comparisons import (
    baseline_of,
    comparison_section,
    overview,
    pooled,
    ranking_section,
)
from shiftdata.bench.reporting.forms import stability_section, tables_of
from shiftdata.bench.reporting.on_line import line_section
from shiftdata.bench.reporting.printed import paper_section
from shiftdata.bench.reporting.published import published_section
from shiftdata.bench.reporting.scores import (
    KINDS,
    OTHER,
    Group,
    Kind,
    Score,
    Section,
    capital,
    clean,
    family_of,
    rule_label,
    scores_of,
    short,
    standard_error,
    unit_of,
)
from shiftdata.bench.selection import RULES, Selected, rule_of
from shiftdata.errors import InputError
from shiftdata.evaluation.charts import svg_chart
from shiftdata.tables import Table, csv_text
from shiftdata.untrusted.texts import read_json

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
            parts += [table.text() for table in section.tables]
        return "\n\n".join(parts) + "\n"

    def to_markdown(self) -> str:
        parts = [f"# Report on {self.title}"]
        for section in self.sections:
            parts += [f"## {section.title}", *section.notes, *(table.markdown() for table in section.tables)]
        return "\n\n".join(parts) + "\n"

    def to_csv(self) -> str:
        """A line for each figure of each study under each rule."""
        header = next(iter(self.numbers), {})
        return csv_text([header, *(row.values() for row in self.numbers)])

    def to_html(self) -> str:
        """One page without scripts, other files or network access; all text is escaped."""
        from shiftdata.evaluation.pages.shell import render_alone

        return render_alone("report.html", name=self.title, sections=self.sections, svg=svg_chart)


def report(
    records: Records,
    rules: Sequence[str] = (),
    *,
    baseline: str = "erm",
    line: Sequence[str] = (),
    axes: str = "probit",
    tables: Sequence[str] = (),
) -> Report:
    """Report on one sweep or several, by rules of `RULES`, by default those that the sweeps name.

    With `tables`, such as "nico++ 2", the report has these tables of the papers in their own form, and
    nothing else.

    Methods are compared with the `baseline`, or with the first one if it is not there. Nothing is trained.
    `line` has two sets, clean and shifted rows, over which models are set on a line in some `axes`.
    """
    if not len(records):
        raise InputError("there is no run to report on: these folders have no records yet")
    title = ", ".join(map(clean, _distinct(records, "sweep")))
    groups, refused = groups_of(records, rules, baseline)
    if tables:
        made = [paper_section(records, groups, name, rules) for name in tables]
        lines = tuple(line for _, numbers in made for line in numbers)
        return Report(title, tuple(section for section, _ in made), lines)
    findings = [Section(f"{capital(group.kind.name)}: {group.title}", tables_of(group)) for group in groups]
    pools = pooled(groups, baseline)
    sections = [
        overview(pools),
        _runs(records),
        _selection(list(dict.fromkeys(group.rule for group in groups))),
        *findings,
        comparison_section(pools),
        published_section(records, groups),
        ranking_section(groups),
        line_section(records, groups, line, axes),
        stability_section(records, pools),
        _failures(records, refused),
    ]
    numbers = tuple(row for group in groups for score in group.scores for row in _rows(score, records))
    return Report(title, tuple(of for of in sections if of.tables or of.notes), numbers)


def groups_of(records: Records, rules: Sequence[str], baseline: str) -> tuple[list[Group], list[Selected]]:
    """The scores that share tables, in the order of kinds; and the studies that no rule could choose from."""
    scores, refused = selected_scores(records, rules)
    places: dict[tuple[Kind, str, str, str, str], list[Score]] = {}
    for score in scores:
        study, rule = score.selected.study, score.selected.rule
        family = family_of(study.task, score.kind)
        places.setdefault((score.kind, score.dataset, family, clean(study.backbone), rule), []).append(score)
    kinds, groups = [*KINDS, OTHER], []
    for key in sorted(places, key=lambda key: (kinds.index(key[0]), *key[1:4])):  # rules stay in their order
        first = baseline_of(places[key], baseline)
        ordered = sorted(places[key], key=lambda score: score.method != first)
        commits, versions = _code(records, [at.run for score in ordered for at in score.selected.runs])
        code = f"commit {commits}; shiftdata {versions}"
        if any(score.selected.study.content_id.startswith(IMPORTED) for score in ordered):
            code = "imported from the authors' files, not rerun"
        groups.append(Group(*key, tuple(ordered), first, code))
    return groups, refused


def _selection(rules: Sequence[str]) -> Section:
    body = [[rule_label(rule), RULES[rule].about] for rule in rules]
    notes = (CHOICE, ORACLES) if any(rule_of(rule).oracle for rule in rules) else (CHOICE,)
    return Section("How models were chosen", (Table.plain("Rules", ["rule", "chooses by"], body),), notes)


def _rows(score: Score, records: Records) -> Iterator[dict[str, Any]]:
    """The lines of the CSV, one per figure of a study."""
    study, chosen = score.selected.study, score.selected
    commits, versions = _code(records, [at.run for at in chosen.runs])
    for figure, values in score.figures.items():
        yield {
            "kind": score.kind.name,
            **study._asdict(),
            "rule": rule_label(chosen.rule),
            "oracle": rule_of(chosen.rule).oracle,
            "trial": chosen.trial,
            "figure": figure,
            "value": float(values.mean()),
            "standard_error": standard_error(values),
            "unit": unit_of(figure),
            "n": score.rows.get(figure, score.n),
            "seeds": len(values),
            "commit": commits,
            "version": versions,
        }


#: Limits: runs that are named per reason, lines of a table, tasks in a line.
NAMED, MOST, MOST_TASKS = 3, 40, 24
#: The rule of records without a sweep.json.
USUAL = "iid"


def _distinct(records: Records, *names: str) -> list[Any]:
    """The distinct values of a column, or tuples of several columns."""
    columns = [records.column(name) for name in names]
    return list(dict.fromkeys(columns[0] if len(names) == 1 else zip(*columns, strict=True)))


def _code(records: Records, runs: Sequence[int]) -> tuple[str, str]:
    """The commits and the versions of some runs."""
    commits = {clean(records.column("commit")[run] or "unknown") for run in runs}
    versions = {str(records.about[run].get("versions", {}).get("shiftdata", "unknown")) for run in runs}
    return ", ".join(sorted(commits)), ", ".join(sorted(versions))


def _runs(records: Records) -> Section:
    """Facts on how the sweeps were run, and their cost."""
    tasks = list(map(clean, _distinct(records, "protocol")))
    more = f" and {len(tasks) - MOST_TASKS:,} more" if len(tasks) > MOST_TASKS else ""
    methods = dict.fromkeys(study.label for study in records.studies())
    trials, seeds = (len(_distinct(records, name)) for name in ("trial", "seed"))
    studies, contents = len(records.studies()), _distinct(records, "dataset", "content_id")
    ended = ", ".join(f"{n:,} {status}" for status, n in Counter(records.column("status")).most_common())
    seconds, processor, examples, peak = (
        [value or 0 for value in records.column(name)]
        for name in ("seconds", "processor_seconds", "examples", "peak_memory")
    )
    cost = f"{_hours(sum(seconds))}, {_hours(sum(processor))} of processors, {sum(examples):,.0f} examples"
    rows = [
        ["datasets", "; ".join(f"{clean(name)} ({short(content_id)})" for name, content_id in contents)],
        ["tasks", f"{len(tasks):,}: {'; '.join(tasks[:MOST_TASKS])}{more}"],
        ["methods", ", ".join(map(clean, methods))],
        ["backbones", ", ".join(map(clean, _distinct(records, "backbone")))],
        ["trials and seeds", f"up to {trials:,} trials a study, {seeds:,} seeds"],
        ["training", _training(_distinct(records, "training"))],
        ["runs", f"{len(records):,} in {studies:,} studies: {ended}"],
        ["cost", f"{cost}, at most {max(peak, default=0) / 2**20:,.0f} MiB"],
    ]
    about = [f"{clean(of['name'])}: {clean(of['about'])}" for of in records.sweeps if of.get("about")]
    about += [f"{clean(of['name'])}: {clean(part)}" for of in records.sweeps if (part := part_of(of))]
    return Section("What was run", (Table.plain("Runs", ["", "what"], rows),), tuple(about))


def _failures(records: Records, refused: Sequence[Selected]) -> Section:
    """Failed runs, and studies from which a rule could not choose."""
    failed = [(reason, which) for _, reason, which in records.failures()]
    no_test = "the chosen runs have no evaluation on a test set"
    rules = [
        (f"{rule_label(of.rule)}: {of.refused or no_test}", f"{of.study.method} on {of.study.protocol}")
        for of in refused
    ]
    tables = [
        *_counted("Runs that failed", ["reason", "runs"], failed),
        *_counted("Rules that could not choose", ["rule and reason", "studies"], rules),
    ]
    notes = () if tables else ("No run failed, and every rule could choose.",)
    return Section("Failures", tuple(tables), notes)


def selected_scores(records: Records, rules: Sequence[str]) -> tuple[list[Score], list[Selected]]:
    """Scores by the given rules, else by those of each sweep; and studies without a choice."""
    own: dict[str, list[str]] = {name: list(rules) for name in _distinct(records, "sweep")}
    for sweep in () if rules else records.sweeps:
        own.setdefault(sweep["name"], []).extend(sweep["rules"])
    own = {name: of or [USUAL] for name, of in own.items()}
    scores: list[Score] = []
    refused: list[Selected] = []
    for rule in dict.fromkeys(rule for of in own.values() for rule in of):
        chosen, lost = scores_of(records, rule)
        scores += [score for score in chosen if rule in own[score.selected.study.sweep]]
        refused += [selected for selected in lost if rule in own[selected.study.sweep]]
    return scores, refused


def _counted(title: str, header: Sequence[str], lines: Iterable[tuple[str, str]]) -> tuple[Table, ...]:
    """A table of reasons, the most frequent first, with counts and examples; none without reasons."""
    reasons: dict[str, list[str]] = {}
    for reason, which in lines:
        reasons.setdefault(clean(reason), []).append(clean(which))
    order = sorted(reasons.items(), key=lambda item: -len(item[1]))
    body = [
        [reason, f"{len(of):,}", "; ".join([*of[:NAMED], *(["..."] if len(of) > NAMED else [])])]
        for reason, of in order[:MOST]
    ]
    notes = [f"{len(order) - MOST:,} more reasons are left out."] if len(order) > MOST else []
    title = f"{title}: {sum(map(len, reasons.values())):,}"
    return (Table.plain(title, [*header, "which"], body, notes),) if body else ()


def _training(given: Sequence[str]) -> str:
    """The settings that all trainings share, and the names of the others."""
    settings = [read_json(text) for text in given]
    names = dict.fromkeys(name for of in settings for name in of)
    values = {name: {str(of.get(name)) for of in settings} for name in names}
    same = [f"{name} {next(iter(of))}" for name, of in values.items() if len(of) == 1]
    return clean(", ".join(same + [f"{name} varies" for name, of in values.items() if len(of) > 1]))


def _hours(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 3600:,.1f} h"
