"""NICO++'s table 4: how far tests vary over the last steps of a run, and what selection by the test gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.kinds import Kind, title_of, unit_of
from shiftdata.bench.reporting.scores import Score, cell_of, over_steps, rule_label
from shiftdata.bench.reporting.tables import Section, Table, plain_table
from shiftdata.bench.selection import rule_of
from shiftdata.metrics.arrays import FloatArray
from shiftdata.metrics.statistics import spread

#: Evaluations at the end of a run that its spread is taken over; NICO++: the last 10 epochs.
LAST = 10
ORACLE = "oracle"
ERROR = "± is the standard error over tasks, or over the seeds of a single one."
SPREAD = (
    f"The standard deviation of the test over the last {LAST} evaluations of a run, or as many as there are: "
    f"the mean over the chosen runs. {ERROR}",
)
GAP = (
    f"How far the model chosen by the test ({ORACLE}) is above the one chosen without it, seed by seed: what "
    f"whoever looks at the test can gain. {ERROR}",
)
NO_SPREAD = "Spread over the last steps: each of these runs has one evaluation. Train with evaluate_every."
NO_GAP = (
    "Gap of oracle to source selection: it takes a rule of each kind, such as --rule iid --rule oracle, and "
    "runs with several evaluations or trials."
)


def stability_section(records: Records, groups: Mapping[tuple[Kind, str, str], Sequence[Score]]) -> Section:
    """Tables of both for each kind and backbone, or a note where records do not have them."""
    by_rule: dict[tuple[Kind, str], dict[str, Sequence[Score]]] = {}
    for (kind, backbone, rule), scores in groups.items():
        by_rule.setdefault((kind, backbone), {})[rule] = scores
    spreads, gaps = [], []
    for (kind, backbone), of in by_rule.items():
        subject = f"{title_of(kind.main)}, {_unit(kind)}: {kind.name}, {backbone}"
        source = {rule: scores for rule, scores in of.items() if not rule_of(rule).oracle}
        spreads += _spread_table(records, subject, source or of)
        gaps += _gap_table(subject, source, of.get(ORACLE, ()))
    notes = [note for note, tables in ((NO_SPREAD, spreads), (NO_GAP, gaps)) if not tables]
    return Section("Test variance and what an oracle gains", (*spreads, *gaps), tuple(notes))


def _unit(kind: Kind) -> str:
    return "points" if unit_of(kind.main) == "%" else unit_of(kind.main)


def _spread_table(records: Records, subject: str, of: Mapping[str, Sequence[Score]]) -> list[Table]:
    def deviations(one: Score) -> FloatArray | None:
        values = [spread(of, "sma") for of in over_steps(records, one, LAST) if len(of) > 1]
        return np.array(values) if values else None

    columns = {f"selected by {rule_label(rule)}": _column(scores, deviations) for rule, scores in of.items()}
    return _table(f"Spread over the last evaluations of {subject}", columns, SPREAD)


def _gap_table(subject: str, source: Mapping[str, Sequence[Score]], oracle: Sequence[Score]) -> list[Table]:
    best = {one.selected.study.id: dict(zip(one.seeds, one.main.tolist(), strict=True)) for one in oracle}
    several = {one.selected.study.id for one in oracle if one.selected.among > len(one.seeds)}

    def gap(one: Score) -> FloatArray | None:
        study = one.selected.study.id
        if study not in several:
            return None
        theirs = best[study]
        values = [
            theirs[seed] - mine for seed, mine in zip(one.seeds, one.main, strict=True) if seed in theirs
        ]
        return np.array(values) if values else None

    columns = {f"{ORACLE} - {rule}": _column(scores, gap) for rule, scores in source.items()}
    return _table(f"Gap of {ORACLE} to source selection, {subject}", columns, GAP)


def _column(scores: Sequence[Score], values: Callable[[Score], FloatArray | None]) -> dict[str, str]:
    """What is printed for each method that has a number."""
    made = {}
    for method in dict.fromkeys(one.method for one in scores):
        mine = [one for one in scores if one.method == method]
        if (cell := cell_of(mine, values, unit_of(mine[0].kind.main))) is not None:
            made[method] = cell.printed
    return made


def _table(title: str, columns: Mapping[str, Mapping[str, str]], notes: Sequence[str]) -> list[Table]:
    columns = {name: of for name, of in columns.items() if of}
    methods = dict.fromkeys(method for of in columns.values() for method in of)
    body = [[method, *(of.get(method, "-") for of in columns.values())] for method in methods]
    return [plain_table(title, ["method", *columns], body, notes)] if body else []
