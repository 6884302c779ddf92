"""What differs between two sweeps: studies, numbers, selections, versions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from shiftdata.bench.records import Records, Study
from shiftdata.bench.reporting.facts import Facts, Wanted, listed
from shiftdata.bench.reporting.kinds import clean, title_of
from shiftdata.bench.reporting.making import Report
from shiftdata.bench.reporting.scores import (
    SHORT,
    Cell,
    Score,
    Section,
    rule_label,
    scores_of,
    standard_error,
    with_variant,
)

#: What a study is called in both sweeps; whether its data and code are the same is what is asked.
Name: TypeAlias = tuple[str, ...]
MOST = 200


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


def _name(study: Study) -> Name:
    return clean(study.dataset), clean(study.task), study.method, study.variant, clean(study.backbone)


def _shown(name: Name) -> str:
    return clean(f"{with_variant(name[2], name[3])} on {name[1]} of {name[0]}, {name[4]}")


def _studies(a: Records, b: Records, names: tuple[str, str]) -> Section:
    first, second = (
        {_name(study): (study.content_id, study.task_id) for study in records.studies()} for records in (a, b)
    )
    body = [[_shown(name), f"{names[0]} alone"] for name in first if name not in second]
    body += [[_shown(name), f"{names[1]} alone"] for name in second if name not in first]
    for name, mine in first.items():
        theirs = second.get(name, mine)
        if mine != theirs:
            what, place = ("data", 0) if mine[0] != theirs[0] else ("rows", 1)
            ids = mine[place][:SHORT], theirs[place][:SHORT]
            body.append([_shown(name), f"both, of other {what}: {ids[0]} and {ids[1]}"])
    counts = (
        f"{len(first.keys() & second.keys()):,} studies are in both, of {len(first):,} in {names[0]} and "
        f"{len(second):,} in {names[1]}.",
    )
    tables = listed("Studies that are not the same", ["study", "in"], body, MOST)
    return Section("Studies", tuple(tables), counts)


def _moved(facts: tuple[Facts, Facts], rules: Sequence[str], names: tuple[str, str]) -> Iterable[Section]:
    """Numbers and selections that differ, over the rules of both."""
    wanted = [Wanted(rules, of) for of in facts]
    numbers: list[list[str]] = []
    chosen: list[list[str]] = []
    both = 0
    for rule in dict.fromkeys(rule for of in wanted for rule in of.every):
        first, second = (
            {
                _name(score.selected.study): score
                for score in (scores_of(of.records, rule)[0] if rule in asked.every else ())
                if asked(score.selected)
            }
            for of, asked in zip(facts, wanted, strict=True)
        )
        shared = [name for name in first if name in second]
        both += len(shared)
        for name in shared:
            head, pair = [_shown(name), rule_label(rule)], (first[name], second[name])
            numbers += [[*head, *cells] for cells in _number(*pair)]
            chosen += [[*head, *cells] for cells in _chosen(facts, pair)]
    notes = (
        f"{both:,} selected studies were compared. A number is listed where it moved by more than the "
        "standard errors of both over seeds, joined (the root of the sum of squares); one without a "
        "spread, where it moved at all.",
    )
    header = ["study", "rule", "figure", *names, "moved by", "their spread"]
    yield Section("Numbers that moved", tuple(listed("Numbers", header, numbers, MOST)), notes)
    tables = listed("Selections", ["study", "rule", *names], chosen, MOST)
    yield Section("Selections that changed", tuple(tables), () if chosen else ("None.",))


def _number(before: Score, after: Score) -> Iterable[list[str]]:
    """The main figure of a study, if it moved."""
    figure = before.kind.main
    cells = [Cell(float(of.main.mean()), standard_error(of.main), figure) for of in (before, after)]
    moved = cells[1].value - cells[0].value
    spread = math.hypot(*(0.0 if math.isnan(of.spread) else of.spread for of in cells))
    if not math.isnan(moved) and abs(moved) > max(spread, 1e-9):
        known = f"{spread:.2f}" if spread else "-"
        yield [title_of(figure), *(of.printed for of in cells), f"{moved:+.2f}", known]


def _chosen(facts: tuple[Facts, Facts], pair: tuple[Score, Score]) -> Iterable[list[str]]:
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
    lines = [_version(of) for of in facts]
    # A method of one sweep alone is listed as a study: its code has nothing to differ from.
    every = [
        name
        for name in dict.fromkeys(name for line in lines for name in line)
        if not name.startswith("code of ") or all(name in line for line in lines)
    ]
    body = [[name, *(line.get(name, "-") for line in lines)] for name in every]
    body = [line for line in body if line[1] != line[2]]
    tables = listed("Versions", ["", *names], body, MOST)
    return Section("Versions that differ", tuple(tables), () if body else ("None.",))


def _version(facts: Facts) -> dict[str, str]:
    values: dict[str, set[str]] = {
        "commits": {clean(commit or "unknown") for commit in facts.records.column("commit")}
    }
    for about in facts.about:
        for package, version in sorted(about.get("versions", {}).items()):
            values.setdefault(package, set()).add(str(version))
        values.setdefault("device", set()).add(clean(str(about.get("device"))))
    line = {name: ", ".join(sorted(of)) for name, of in values.items()}
    return line | {f"code of {name}": version for name, version in facts.code_versions().items()}
