"""NICO++'s table 4: how far tests vary over the last steps of a run, and what selection by the test gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.comparisons import Pools
from shiftdata.bench.reporting.kinds import Kind, title_of, unit_of
from shiftdata.bench.reporting.scores import Cells, Score, Section, cells_of, over_steps, rule_label, table_of
from shiftdata.bench.selection import rule_of
from shiftdata.metrics.arrays import FloatArray
from shiftdata.metrics.statistics import spread
from shiftdata.tables import Table

#: Evaluations at the end of a run that its spread is taken over; NICO++: the last 10 epochs.
LAST = 10
ORACLE = "oracle"
ERROR = "± is the standard error over tasks, or over the seeds of a single one."
SPREAD = (
    f"The standard deviation of the test over the last {LAST} evaluations of a run, or as many as there are: "
    f"the mean over the chosen runs. {ERROR}"
)
GAP = (
    f"How far the model chosen by the test ({ORACLE}) is above the one chosen without it, seed by seed: what "
    f"whoever looks at the test can gain. {ERROR}"
)
NO_SPREAD = "Spread over the last steps: each of these runs has one evaluation. Train with evaluate_every."
NO_GAP = (
    "Gap of oracle to source selection: it takes a rule of each kind, such as --rule iid --rule oracle, and "
    "runs with several evaluations or trials."
)


def stability_section(records: Records, pools: Pools) -> Section:
    """Tables of both for each kind and backbone, or a note where records do not have them."""

    def deviations(score: Score) -> FloatArray | None:
        values = [spread(of, "sma") for of in over_steps(records, score, LAST) if len(of) > 1]
        return np.array(values) if values else None

    by_rule: dict[tuple[Kind, str], dict[str, Sequence[Score]]] = {}
    for (kind, backbone, rule), scores in pools.items():
        by_rule.setdefault((kind, backbone), {})[rule] = scores
    spreads, gaps = [], []
    for (kind, backbone), of in by_rule.items():
        unit = "points" if unit_of(kind.main) == "%" else unit_of(kind.main)
        subject = f"{title_of(kind.main)}, {unit}: {kind.name}, {backbone}"
        source = {rule: scores for rule, scores in of.items() if not rule_of(rule).oracle}
        columns = {f"selected by {rule_label(rule)}": scores for rule, scores in (source or of).items()}
        spreads += _table(f"Spread over the last evaluations of {subject}", columns, deviations, SPREAD)
        columns = {f"{ORACLE} - {rule}": scores for rule, scores in source.items()}
        gap = _gap(of.get(ORACLE, ()))
        gaps += _table(f"Gap of {ORACLE} to source selection, {subject}", columns, gap, GAP)
    notes = [note for note, tables in ((NO_SPREAD, spreads), (NO_GAP, gaps)) if not tables]
    return Section("Test variance and what an oracle gains", (*spreads, *gaps), tuple(notes))


def _gap(oracle: Sequence[Score]) -> Callable[[Score], FloatArray | None]:
    """How far the oracle is above a score, for each seed of both; None where it had no choice."""
    best = {one.selected.study.id: one.by_seed for one in oracle if one.selected.among > len(one.seeds)}

    def gap(score: Score) -> FloatArray | None:
        theirs = best.get(score.selected.study.id, {})
        values = [theirs[seed] - mine for seed, mine in score.by_seed.items() if seed in theirs]
        return np.array(values) if values else None

    return gap


def _table(
    title: str,
    columns: Mapping[str, Sequence[Score]],
    values: Callable[[Score], FloatArray | None],
    note: str,
) -> list[Table]:
    cells: Cells = {}
    for name, scores in columns.items():
        cells |= cells_of(scores, scores[0].kind.main, name, values=values)
    return [table_of(title, cells, (note,), "method", drawn=False)] if cells else []
