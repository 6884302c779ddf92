"""What differs between two sweeps: studies, numbers, selections, versions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.facts import Facts, Wanted, code_versions
from shiftdata.bench.reporting.kinds import clean, title_of, unit_of
from shiftdata.bench.reporting.making import Report
from shiftdata.bench.reporting.scores import Cell, Score, rule_label, scores_of, standard_error
from shiftdata.bench.reporting.tables import SHORT, Section, Table, plain_table

#: What a study is called in both sweeps; whether its data and code are the same is what is asked.
Name = tuple[str, str, str, str, str]
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
    wanted = Wanted(rules, facts[0]), Wanted(rules, facts[1])
    sections = [_studies(a, b, names), *_moved(a, b, wanted, names), _versions(facts, names)]
    return Report(f"{names[0]} and {names[1]}", tuple(sections), ())


def _named(records: Records) -> dict[Name, tuple[str, str]]:
    """The studies by name, with the data that they are of."""
    return {
        (clean(one.dataset), clean(one.task), one.method, one.variant, clean(one.backbone)): (
            one.content_id,
            one.task_id,
        )
        for one in records.studies()
    }


def _shown(name: Name) -> str:
    variant = f"@{name[3]}" if name[3] not in ("", "fixed") else ""
    return clean(f"{name[2]}{variant} on {name[1]} of {name[0]}, {name[4]}")


def _studies(a: Records, b: Records, names: tuple[str, str]) -> Section:
    first, second = _named(a), _named(b)
    body = [[_shown(one), f"{names[0]} alone"] for one in first if one not in second]
    body += [[_shown(one), f"{names[1]} alone"] for one in second if one not in first]
    for one, mine in first.items():
        theirs = second.get(one, mine)
        what = "data" if mine[0] != theirs[0] else "rows"
        ids = [of[0 if what == "data" else 1][:SHORT] for of in (mine, theirs)]
        if mine != theirs:
            body.append([_shown(one), f"both, of other {what}: {ids[0]} and {ids[1]}"])
    both = len(first.keys() & second.keys())
    notes = (
        f"{both:,} studies are in both, of {len(first):,} in {names[0]} and {len(second):,} in {names[1]}.",
    )
    return Section("Studies", _tables("Studies that are not the same", ["study", "in"], body), notes)


def _tables(title: str, header: Sequence[str], body: list[list[str]]) -> tuple[Table, ...]:
    notes = [f"{len(body) - MOST:,} more are left out."] if len(body) > MOST else []
    return (plain_table(f"{title}: {len(body):,}", header, body[:MOST], notes),) if body else ()


def _scores(records: Records, rule: str, wanted: Wanted) -> dict[Name, Score]:
    made = {}
    for one in scores_of(records, rule)[0] if rule in wanted.every else ():
        study = one.selected.study
        if wanted(one.selected):
            made[
                clean(study.dataset), clean(study.task), study.method, study.variant, clean(study.backbone)
            ] = one
    return made


def _moved(
    a: Records, b: Records, wanted: tuple[Wanted, Wanted], names: tuple[str, str]
) -> Iterable[Section]:
    """Numbers and selections that differ, over the rules of both."""
    numbers, chosen, both = [], [], 0
    for rule in dict.fromkeys([*wanted[0].every, *wanted[1].every]):
        first, second = _scores(a, rule, wanted[0]), _scores(b, rule, wanted[1])
        for name, one in first.items():
            if (other := second.get(name)) is not None:
                both += 1
                numbers += _number(name, rule, one, other)
                chosen += _chosen(a, b, name, rule, one, other)
    header = ["study", "rule", "figure", *names, "moved by", "their spread"]
    notes = (
        f"{both:,} selected studies were compared. A number is listed where it moved by more than the "
        "standard errors of both over seeds, joined (the root of the sum of squares); one without a "
        "spread, where it moved at all.",
    )
    yield Section("Numbers that moved", _tables("Numbers", header, numbers), notes)
    header = ["study", "rule", *names]
    yield Section(
        "Selections that changed", _tables("Selections", header, chosen), () if chosen else ("None.",)
    )


def _number(name: Name, rule: str, one: Score, other: Score) -> list[list[str]]:
    """The main figure of a study, if it moved."""
    figure = one.kind.main
    cells = [Cell(float(of.main.mean()), standard_error(of.main), unit_of(figure)) for of in (one, other)]
    moved = cells[1].value - cells[0].value
    spread = math.hypot(*(0.0 if math.isnan(of.spread) else of.spread for of in cells))
    if math.isnan(moved) or abs(moved) <= max(spread, 1e-9):
        return []
    known = f"{spread:.2f}" if spread else "-"
    return [
        [
            _shown(name),
            rule_label(rule),
            title_of(figure),
            *(of.printed for of in cells),
            f"{moved:+.2f}",
            known,
        ]
    ]


def _chosen(a: Records, b: Records, name: Name, rule: str, one: Score, other: Score) -> list[list[str]]:
    """Which trial, steps and settings were chosen, as far as they differ."""
    choices = [_choice(records, of) for records, of in ((a, one), (b, other))]
    every = dict.fromkeys([*choices[0], *choices[1]])
    differ = [what for what in every if choices[0].get(what) != choices[1].get(what)]
    texts = [", ".join(f"{what} {of.get(what, '-')}" for what in differ) for of in choices]
    return [[_shown(name), rule_label(rule), *texts]] if differ else []


def _choice(records: Records, of: Score) -> dict[str, str]:
    run = of.selected.runs[0].run
    steps = {at.step for at in of.selected.runs}
    settings = {**json.loads(records.column("training")[run]), **json.loads(records.column("hyper")[run])}
    shown = {clean(str(name)): clean(f"{value}") for name, value in settings.items()}
    return {"trial": f"{of.selected.trial}", "steps": " ".join(map(str, sorted(steps))), **shown}


def _versions(facts: tuple[Facts, Facts], names: tuple[str, str]) -> Section:
    """Versions, commits, devices and code versions that are not in both."""
    lines: list[dict[str, str]] = []
    for one in facts:
        line = {"commits": ", ".join(sorted({clean(of or "unknown") for of in one.records.column("commit")}))}
        for package in sorted({name for of in one.about for name in of.get("versions", {})}):
            line[package] = ", ".join(
                sorted({str(of["versions"].get(package)) for of in one.about if "versions" in of})
            )
        line["device"] = ", ".join(sorted({clean(str(of.get("device"))) for of in one.about}))
        line |= {
            f"code of {name}": of
            for name, of in code_versions(one.records.column("method"), one.about).items()
        }
        lines.append(line)
    shared = [name for name in lines[0] if name in lines[1] or not name.startswith("code of ")]
    every = dict.fromkeys([*shared, *(name for name in lines[1] if not name.startswith("code of "))])
    body = [[name, *(of.get(name, "-") for of in lines)] for name in every]
    body = [line for line in body if line[1] != line[2]]
    return Section(
        "Versions that differ", _tables("Versions", ["", *names], body), () if body else ("None.",)
    )
