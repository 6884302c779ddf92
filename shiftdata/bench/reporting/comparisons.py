"""Each method against a baseline over the tasks and seeds of both; who is ahead, and what may be noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from shiftdata.bench.reporting.kinds import Kind, title_of
from shiftdata.bench.reporting.scores import Score, Section, method_label, rule_label, span
from shiftdata.metrics.arrays import FloatArray
from shiftdata.metrics.statistics import spread, student, student_quantile
from shiftdata.stable import rng
from shiftdata.tables import Table

#: Scores by what is compared and ranked together: a kind of task, a backbone, a rule.
Pools: TypeAlias = Mapping[tuple[Kind, str, str], Sequence[Score]]
#: Up to this many differences every choice of their signs is tried; beyond, some are drawn.
EXACT, DRAWN = 14, 20_000
LEVEL = 0.05
#: From this many differences on a sign-flip test can fall below `LEVEL`.
ENOUGH = math.ceil(math.log2(2 / LEVEL))
SURE, UNSURE = "more than noise", "may be noise"
AHEAD = (
    "Ahead is the method with the highest mean over the tasks that most methods have. A lead, in points with "
    f"its 95 % interval, is {SURE} where the paired comparison calls it higher after Holm's adjustment for "
    "all methods. The first and the next were picked by these numbers, so their difference looks surer than "
    "it is."
)
READING = (
    "A difference counts as higher or lower where the 95 % interval (Student's, over the mean difference of "
    f"each task, or over the seeds of a single one) excludes 0, Holm's p is below {LEVEL:g} and, of {ENOUGH} "
    f"differences or more, that of the sign-flip test too (exact up to {EXACT}). Else it is undecided, which "
    "does not say that methods are equal.",
    "Tasks made from one dataset share pictures: what holds over them need not hold for other datasets. "
    "Seeds of one task say nothing of other tasks.",
)


def student_test(differences: FloatArray, level: float = 0.95) -> tuple[float, float, float]:
    """Low and high end of the interval of a mean, and p that it is 0; nan where all differences are equal.

    Equal differences say that the seeds are no replicates (a method that draws nothing), not that the mean
    is certain.
    """
    n = len(differences)
    error = spread(differences, "sma") / math.sqrt(n)
    if n < 2 or not error > 1e-9 * max(1.0, float(np.abs(differences).max())):
        return math.nan, math.nan, math.nan
    mean, reach = float(differences.mean()), student_quantile(level, n - 1) * error
    return mean - reach, mean + reach, max(0.0, 1 - student(mean / error, n - 1))


def sign_flip(differences: FloatArray) -> float:
    """The p of a sign-flip test: how often the mean would be as far from 0, were each sign chance.

    Exact up to `EXACT` differences; the smallest it can be is 2 / 2^n.

    >>> sign_flip(np.array([1.0, 2.0, 3.0, 1.5]))
    0.125
    """
    n = len(differences)
    if n <= EXACT:
        signs = np.array(list(itertools.product((1, -1), repeat=n)), np.float64)
    else:
        signs = rng(0, "report", "sign-flip").choice([-1.0, 1.0], size=(DRAWN, n))
        signs[0] = 1  # what was observed is one of the choices
    means = np.abs(signs @ differences)
    return float(np.mean(means >= np.abs(differences.sum()) - 1e-9))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values; nan stays nan and counts as no comparison.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    known = [place for place, value in enumerate(p) if not math.isnan(value)]
    adjusted, reached = [math.nan] * len(p), 0.0
    for rank, place in enumerate(sorted(known, key=lambda place: p[place])):
        reached = max(reached, min(1.0, p[place] * (len(known) - rank)))
        adjusted[place] = reached
    return adjusted


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
        return "undecided" if not (clear and small) else "higher" if self.mean > 0 else "lower"

    @property
    def interval(self) -> str:
        return f"{self.low:+.2f} to {self.high:+.2f}" if math.isfinite(self.low) else "-"


def compared(scores: Sequence[Score], baseline: str) -> list[Comparison]:
    """Every method against the baseline by the kind's main figure."""
    values: dict[str, dict[tuple[str, str], dict[int, float]]] = {}
    for score in scores:
        of_task = values.setdefault(score.method, {}).setdefault((score.dataset, score.task_id), {})
        of_task.update(score.by_seed)
    base = values.get(baseline, {})
    comparisons = []
    for method, mine in values.items():
        pairs = [
            [value - base[task][seed] for seed, value in seeds.items() if seed in base[task]]
            for task, seeds in mine.items()
            if task in base
        ]
        finite = [known for of in pairs if (known := [value for value in of if math.isfinite(value)])]
        if finite and method != baseline:
            comparisons.append(_comparison(method, finite))
    adjusted = holm([comparison.p for comparison in comparisons])
    return [replace(one, adjusted=value) for one, value in zip(comparisons, adjusted, strict=True)]


def _comparison(method: str, tasks: list[list[float]]) -> Comparison:
    """Seeds of one task share its rows, so tasks are what differs; of one task alone, seeds."""
    alone = len(tasks) == 1
    differences = np.array(tasks[0] if alone else [np.mean(of) for of in tasks])
    tested, flipped = student_test(differences), sign_flip(differences)
    pairs = sum(map(len, tasks))
    return Comparison(method, "seeds" if alone else "tasks", differences, pairs, *tested, flipped)


def baseline_of(scores: Sequence[Score], name: str) -> str:
    """The label of the baseline among the methods of some scores: that of the name, else the first method."""
    labels = {score.selected.study.method: method_label(score.selected) for score in reversed(scores)}
    return labels.get(name, scores[0].method)


def comparison_section(pools: Pools, name: str) -> Section:
    """A table for each kind, backbone and rule; `name` is the baseline's."""
    tables, counted = [], 0
    for (kind, backbone, rule), scores in pools.items():
        baseline = baseline_of(scores, name)
        if comparisons := compared(scores, baseline):
            counted += len(comparisons)
            where = f"{kind.name}, {backbone}, selected by {rule_label(rule)}"
            title = f"{title_of(kind.main)} against {baseline}, points: {where}"
            tables.append(_table(f"{title[:1].upper()}{title[1:]}", comparisons, scores))
    counts = (
        f"Comparisons made: {counted:,}, in {len(tables):,} tables. Holm's adjustment is within each table: "
        f"who picks the best of all should multiply its p by {counted:,}."
    )
    return Section("Paired comparisons", tuple(tables), (counts, *READING) if tables else ())


def _table(title: str, comparisons: list[Comparison], scores: Sequence[Score]) -> Table:
    header = ["method", "difference", "95 % interval", "verdict", "above 0", "p", "p, Holm", "p, sign flip"]
    body = []
    for one in comparisons:
        above = f"{(one.differences > 0).sum()} of {len(one.differences)} {one.of}"
        p = [
            "-" if math.isnan(value) else f"{value:.3f}" if value >= 0.001 else "<0.001"
            for value in (one.p, one.adjusted, one.flipped)
        ]
        body.append([one.method, f"{one.mean:+.2f}", one.interval, one.verdict, above, *p])
    datasets = ", ".join(dict.fromkeys(score.dataset for score in scores))
    pairs = span(one.pairs for one in comparisons)
    notes = [
        f"Comparisons: {len(comparisons):,}, of {pairs} pairs of runs with one seed. Datasets: {datasets}."
    ]
    if equal := [one.method for one in comparisons if math.isnan(one.p) and len(one.differences) > 1]:
        notes.append(
            f"No interval: all differences are equal, as of methods that draw nothing ({', '.join(equal)})."
        )
    if any(len(one.differences) == 1 for one in comparisons):
        notes.append("One difference alone has no interval: give the sweep more seeds or tasks.")
    return Table.plain(title, header, body, notes)


def overview(pools: Pools, name: str) -> Section:
    """What to read first, a line a rule for each kind and backbone: who is ahead, and how surely."""
    tables: dict[str, list[list[str]]] = {}
    for (kind, backbone, rule), scores in pools.items():
        order = _ranked(scores)
        if len(order) > 1:
            datasets = ", ".join(dict.fromkeys(score.dataset for score in scores))
            tasks, methods = (
                len({getattr(score.selected.study, of) for score in scores}) for of in ("task_id", "method")
            )
            figure = title_of(kind.main)
            title = (
                f"{figure[:1].upper()}{figure[1:]}, %: {methods:,} methods with {backbone}, "
                f"{kind.name} on {datasets}, {tasks:,} task{'s' * (tasks > 1)}"
            )
            first, second = list(order)[:2]
            baseline = baseline_of(scores, name)
            known = "it is the baseline" if first == baseline else _lead(scores, first, baseline)
            line = [rule_label(rule), first, f"{order[first]:.1f}", _lead(scores, first, second), known]
            tables.setdefault(title, []).append(line)
    header = ("selected by", "ahead", "mean", "over the next", "over the baseline")
    plain = tuple(Table.plain(title, header, lines) for title, lines in tables.items())
    return Section("In short", plain, (AHEAD,) if plain else ())


def _ranked(scores: Sequence[Score]) -> dict[str, float]:
    """The mean of each method that has as many tasks as any, the highest first."""
    means = means_of(scores)
    return dict(
        sorted(
            ((name, float(np.mean([*of.values()]))) for name, of in means.items()), key=lambda one: -one[1]
        )
    )


def means_of(scores: Sequence[Score]) -> dict[str, dict[str, float]]:
    """The mean of each task, of the methods that have as many tasks as any."""
    means: dict[str, dict[str, float]] = {}
    for score in scores:
        if math.isfinite(mean := float(score.main.mean())):
            means.setdefault(score.method, {})[score.task_id] = mean
    most = max(map(len, means.values()), default=0)
    return {method: of for method, of in means.items() if len(of) == most}


def _lead(scores: Sequence[Score], first: str, behind: str) -> str:
    """How far one method is over another, in points."""
    comparison = next((one for one in compared(scores, behind) if one.method == first), None)
    if comparison is None:
        return f"{behind}: no task in common"
    sure = SURE if comparison.verdict == "higher" else UNSURE
    low, high = comparison.low, comparison.high
    between = f" ({low:+.1f} to {high:+.1f})" if np.isfinite(low) else ""
    return f"{sure}: {comparison.mean:+.1f}{between} over {behind}"
