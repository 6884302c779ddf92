"""Each method against a baseline, over the tasks and seeds that both have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shiftdata.bench.reporting.kinds import Kind, title_of
from shiftdata.bench.reporting.scores import Score, method_label, rule_label
from shiftdata.bench.reporting.statistics import EXACT, holm, sign_flip, student_test
from shiftdata.bench.reporting.tables import Section, Table, plain_table, span
from shiftdata.metrics.arrays import FloatArray

LEVEL = 0.05
#: From so many differences on a sign-flip test can fall below `LEVEL`.
ENOUGH = math.ceil(math.log2(2 / LEVEL))
READING = (
    "A difference counts as higher or lower where the 95 % interval (Student's, over the mean difference of "
    f"each task, or over the seeds of a single one) excludes 0, Holm's p is below {LEVEL:g} and, of {ENOUGH} "
    f"differences or more, that of the sign-flip test too (exact up to {EXACT}). Else it is undecided, which "
    "does not say that methods are equal.",
    "Tasks made from one dataset share pictures: what holds over them need not hold for other datasets. "
    "Seeds of one task say nothing of other tasks.",
)


@dataclass(frozen=True)
class Comparison:
    """The paired differences of a method and the baseline: one a task, or one a seed where the task is one.

    `p` is Student's, `flipped` that of the sign-flip test, `adjusted` Holm's of `p` over the comparisons of
    its table.
    """

    method: str
    of: str
    differences: FloatArray
    pairs: int
    low: float
    high: float
    p: float
    flipped: float
    adjusted: float = math.nan

    @property
    def mean(self) -> float:
        return float(self.differences.mean())

    @property
    def verdict(self) -> str:
        """Higher or lower where the interval excludes 0, and the tests agree that it does."""
        clear = self.low > 0 or self.high < 0  # nan is neither
        small = self.adjusted < LEVEL and (len(self.differences) < ENOUGH or self.flipped < LEVEL)
        if not (clear and small):
            return "undecided"
        return "higher" if self.mean > 0 else "lower"


def compared(scores: Sequence[Score], baseline: str) -> list[Comparison]:
    """Every method against the baseline by the kind's main figure."""
    values: dict[str, dict[tuple[str, str], dict[int, float]]] = {}
    for one in scores:
        place = (one.dataset, one.selected.study.task_id)
        seeds = values.setdefault(one.method, {}).setdefault(place, {})
        seeds.update(zip(one.seeds, one.main.tolist(), strict=True))
    base = values.get(baseline, {})
    found = []
    for method, mine in values.items():
        if method == baseline:
            continue
        tasks = [
            [mine[task][seed] - base[task][seed] for seed in mine[task] if seed in base[task]]
            for task in mine
            if task in base
        ]
        tasks = [[one for one in of if math.isfinite(one)] for of in tasks]
        tasks = [of for of in tasks if of]
        if tasks:
            found.append(_comparison(method, tasks))
    adjusted = holm([one.p for one in found])
    return [
        Comparison(**{**vars(one), "adjusted": value}) for one, value in zip(found, adjusted, strict=True)
    ]


def _comparison(method: str, tasks: list[list[float]]) -> Comparison:
    """Seeds of one task share its rows, so tasks are what differs; of one task alone, seeds."""
    alone = len(tasks) == 1
    differences = np.array(tasks[0] if alone else [np.mean(of) for of in tasks])
    low, high, p = student_test(differences)
    return Comparison(
        method, "seeds" if alone else "tasks", differences, sum(map(len, tasks)), low, high, p,
        sign_flip(differences),
    )  # fmt: skip


def baseline_of(scores: Sequence[Score], name: str) -> str:
    """The label of the baseline among the methods of some scores: that of the name, else the first method."""
    labels = {one.selected.study.method: method_label(one.selected) for one in reversed(scores)}
    return labels.get(name, method_label(scores[0].selected))


def comparison_section(groups: Mapping[tuple[Kind, str, str], Sequence[Score]], name: str) -> Section:
    """A table for each kind, backbone and rule."""
    tables, counted = [], 0
    for (kind, backbone, rule), scores in groups.items():
        baseline = baseline_of(scores, name)
        found = compared(scores, baseline)
        if found:
            counted += len(found)
            tables.append(_table(kind, backbone, rule, baseline, found, scores))
    counts = (
        f"Comparisons made: {counted:,}, in {len(tables):,} tables. Holm's adjustment is within each table: "
        f"who picks the best of all should multiply its p by {counted:,}."
    )
    return Section("Paired comparisons", tuple(tables), (counts, *READING) if tables else ())


def _table(
    kind: Kind, backbone: str, rule: str, baseline: str, found: list[Comparison], scores: Sequence[Score]
) -> Table:
    where = f"{kind.name}, {backbone}, selected by {rule_label(rule)}"
    title = f"{title_of(kind.main)} against {baseline}, points: {where}"
    header = ["method", "difference", "95 % interval", "verdict", "above 0", "p", "p, Holm", "p, sign flip"]
    body = []
    for one in found:
        above = f"{(one.differences > 0).sum()} of {len(one.differences)} {one.of}"
        body.append(
            [one.method, f"{one.mean:+.2f}", _interval(one), one.verdict, above]
            + [_p(value) for value in (one.p, one.adjusted, one.flipped)]
        )
    pairs = sorted({one.pairs for one in found})
    datasets = ", ".join(dict.fromkeys(one.dataset for one in scores))
    notes = [
        f"Comparisons: {len(found):,}, of {span(pairs)} pairs of runs with one seed. Datasets: {datasets}."
    ]
    if equal := [one.method for one in found if math.isnan(one.p) and len(one.differences) > 1]:
        notes.append(
            f"No interval: all differences are equal, as of methods that draw nothing ({', '.join(equal)})."
        )
    if any(len(one.differences) == 1 for one in found):
        notes.append("One difference alone has no interval: give the sweep more seeds or tasks.")
    return plain_table(f"{title[:1].upper()}{title[1:]}", header, body, notes)


def _interval(one: Comparison) -> str:
    return f"{one.low:+.2f} to {one.high:+.2f}" if math.isfinite(one.low) else "-"


def _p(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}" if value >= 0.001 else "<0.001"
