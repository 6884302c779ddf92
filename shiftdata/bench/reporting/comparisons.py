"""Paired comparisons with a baseline, who is ahead, and ranks of methods, next to those of the papers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shiftdata.bench.papers import Results, published, ranking
from shiftdata.bench.papers.numbers import SCHEMA
from shiftdata.bench.reporting.scores import (
    Group,
    Kind,
    Score,
    Section,
    alike,
    capital,
    rule_label,
    span,
    title_of,
)
from shiftdata.data.arrays import FloatArray
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.differences import holm, student_test
from shiftdata.tables import Table

LEVEL = 0.05
SURE, UNSURE = "more than noise", "may be noise"
AHEAD = (
    "Ahead is the method with the highest mean over the tasks that most methods have. A lead, in points with "
    f"its 95 % interval, is {SURE} if the paired comparison calls it higher after Holm's adjustment for all "
    "methods. The first and the next were picked by these numbers: their difference looks surer than it is."
)
READING = (
    "A difference is higher or lower if the 95 % interval (Student's, over the mean difference of each task, "
    f"or over the seeds of a single one) excludes 0 and Holm's p is below {LEVEL:g}. Otherwise it is "
    "undecided, which does not mean that the methods are equal.",
    "Tasks made from one dataset share pictures: a result over them need not hold for other datasets, nor a "
    "result over seeds of one task for other tasks.",
)


@dataclass(frozen=True)
class Comparison:
    """The paired differences of a method and the baseline: one per task, or per seed of a single task.

    `p` is Student's, `adjusted` Holm's of `p` within its table.
    """

    method: str
    of: str
    differences: FloatArray
    pairs: int
    low: float
    high: float
    p: float
    adjusted: float = math.nan

    @property
    def mean(self) -> float:
        return float(self.differences.mean())

    @property
    def verdict(self) -> str:
        """Higher or lower if the interval excludes 0 and the adjusted p is small."""
        clear = self.low > 0 or self.high < 0  # nan is neither
        if not (clear and self.adjusted < LEVEL):
            return "undecided"
        return "higher" if self.mean > 0 else "lower"

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
        finite = [[value for value in of if math.isfinite(value)] for of in pairs]
        if any(finite) and method != baseline:
            comparisons.append(_comparison(method, [of for of in finite if of]))
    adjusted = holm([pair.p for pair in comparisons])
    return [replace(pair, adjusted=value) for pair, value in zip(comparisons, adjusted, strict=True)]


def _comparison(method: str, tasks: list[list[float]]) -> Comparison:
    """Seeds of one task share its rows, so each task gives one difference; a single task, one per seed."""
    alone = len(tasks) == 1
    differences = np.array(tasks[0] if alone else [np.mean(of) for of in tasks])
    of, pairs = "seeds" if alone else "tasks", sum(map(len, tasks))
    return Comparison(method, of, differences, pairs, *student_test(differences))


def baseline_of(scores: Sequence[Score], name: str) -> str:
    """The label of the baseline among the methods of scores, else of the first method."""
    labels = {score.selected.study.method: score.method for score in reversed(scores)}
    return labels.get(name, scores[0].method)


def pooled(groups: Sequence[Group], baseline: str) -> list[Group]:
    """Join the groups of one kind, backbone and rule over families and datasets."""
    pools = []
    for same in alike(groups, "kind", "backbone", "rule"):
        scores = tuple(score for group in same for score in group.scores)
        datasets = ", ".join(dict.fromkeys(score.dataset for score in scores))
        first = baseline_of(scores, baseline)
        pools.append(replace(same[0], dataset=datasets, family="", scores=scores, baseline=first))
    return pools


def comparison_section(pools: Sequence[Group]) -> Section:
    """Every method against the baseline, one table per kind, backbone and rule."""
    pairs = [(pool, of) for pool in pools if (of := compared(pool.scores, pool.baseline))]
    counted = sum(len(of) for _, of in pairs)
    counts = (
        f"Comparisons made: {counted:,}, in {len(pairs):,} tables. Holm's adjustment is within each table: "
        f"to pick the best of all, multiply its p by {counted:,}."
    )
    tables = tuple(_table(pool, of) for pool, of in pairs)
    return Section("Paired comparisons", tables, (counts, *READING) if tables else ())


def _table(pool: Group, comparisons: list[Comparison]) -> Table:
    where = f"{pool.kind.name}, {pool.backbone}, selected by {rule_label(pool.rule)}"
    title = f"{title_of(pool.kind.main)} against {pool.baseline}, points: {where}"
    header = ["method", "difference", "95 % interval", "verdict", "above 0", "p", "p, Holm"]
    body = []
    for pair in comparisons:
        above = f"{(pair.differences > 0).sum()} of {len(pair.differences)} {pair.of}"
        p = [
            "-" if math.isnan(value) else f"{value:.3f}" if value >= 0.001 else "<0.001"
            for value in (pair.p, pair.adjusted)
        ]
        body.append([pair.method, f"{pair.mean:+.2f}", pair.interval, pair.verdict, above, *p])
    pairs = span(pair.pairs for pair in comparisons)
    counted = f"Comparisons: {len(comparisons):,}, of {pairs} pairs of runs with one seed."
    notes = [f"{counted} Datasets: {pool.dataset}."]
    if equal := [pair.method for pair in comparisons if math.isnan(pair.p) and len(pair.differences) > 1]:
        notes.append(
            f"No interval: all differences are equal, as of methods that draw nothing ({', '.join(equal)})."
        )
    if any(len(pair.differences) == 1 for pair in comparisons):
        notes.append("One difference alone has no interval: give the sweep more seeds or tasks.")
    return Table.plain(capital(title), header, body, notes)


def overview(pools: Sequence[Group]) -> Section:
    """Who is ahead, one line per rule, one table per kind and backbone."""
    tables: dict[str, list[list[str]]] = {}
    for pool in pools:
        order = _ranked(pool.scores)
        if len(order) < 2:
            continue
        methods, tasks = len({score.selected.study.method for score in pool.scores}), len(pool.tasks)
        title = (
            f"{capital(title_of(pool.kind.main))}, %: {methods:,} methods with {pool.backbone}, "
            f"{pool.kind.name} on {pool.dataset}, {tasks:,} task{'s' * (tasks > 1)}"
        )
        (first, mean), (second, _) = order[:2]
        over = [_lead(pool.scores, first, name) for name in (second, pool.baseline)]
        if first == pool.baseline:
            over[1] = "it is the baseline"
        tables.setdefault(title, []).append([rule_label(pool.rule), first, f"{mean:.1f}", *over])
    header = ("selected by", "ahead", "mean", "over the next", "over the baseline")
    plain = tuple(Table.plain(title, header, lines) for title, lines in tables.items())
    return Section("In short", plain, (AHEAD,) if plain else ())


def _ranked(scores: Sequence[Score]) -> list[tuple[str, float]]:
    """The means of the methods that have the most tasks, the highest first."""
    means = ((method, float(np.mean([*of.values()]))) for method, of in means_of(scores).items())
    return sorted(means, key=lambda pair: -pair[1])


def means_of(scores: Sequence[Score]) -> dict[str, dict[str, float]]:
    """The means by task of the methods that have the most tasks."""
    means: dict[str, dict[str, float]] = {}
    for score in scores:
        if math.isfinite(mean := float(score.main.mean())):
            means.setdefault(score.method, {})[score.task_id] = mean
    most = max(map(len, means.values()), default=0)
    return {method: of for method, of in means.items() if len(of) == most}


def _lead(scores: Sequence[Score], first: str, behind: str) -> str:
    """The lead of one method over another, in points."""
    comparison = next((pair for pair in compared(scores, behind) if pair.method == first), None)
    if comparison is None:
        return f"{behind}: no task in common"
    sure = SURE if comparison.verdict == "higher" else UNSURE
    low, high = comparison.low, comparison.high
    between = f" ({low:+.1f} to {high:+.1f})" if np.isfinite(low) else ""
    return f"{sure}: {comparison.mean:+.1f}{between} over {behind}"


#: Methods whose name here is not the lower-case name in the papers.
NAMES = {
    "Deepall": "erm", "NO_ADAPT": "erm", "Source": "erm", "GroupDRO": "group-dro-domains", "UDA": "uan",
    "CDANN": "cdan", "NoisyStudent": "noisy-student",
}  # fmt: skip
#: RLSbench's tables have RS and RW as parts.
CORRECTIONS = {"None": "", "RW": "rw", "RS": "rs", "RS+RW": "rs+rw"}
DATASETS = ("PACS", "VLCS", "OfficeHome", "NICO++", "DomainNet")
PRETRAINED = ("Supervised ResNet-50", "MoCo-v2 ResNet-50", "MoCo-v3 ViT-B/16")
#: The fewest methods in common for which two rankings are compared.
FEWEST = 3
NOTE = (
    "1 is the best; equal means share a rank. A change of +2 is two places up from the first set of numbers. "
    "Values are means over the tasks that every method has. Rank correlations of few methods vary widely."
)


def ranking_section(groups: Sequence[Group]) -> Section:
    """Ranks in each group under every rule, then over backbones, then next to the papers."""
    tables = []
    for same in alike(groups, "kind", "family", "dataset", "backbone"):
        first = same[0]
        where = f"{first.kind.name}, {first.dataset}, {first.family}, {first.backbone}"
        sets = {rule_label(group.rule): _results(group) for group in same}
        tables += _ranks(f"{title_of(first.kind.main)}, ranks by selection: {where}", sets)
        for name, board in boards(first.kind, first.family):
            tables += _with_paper(f"Ranks next to the paper's: {where}", name, board, sets)
    for same in alike(groups, "kind", "family", "dataset", "rule"):
        if len(same) > 1:
            first = same[0]
            where = f"{first.kind.name}, {first.dataset}, {first.family}, {rule_label(first.rule)}"
            sets = {group.backbone: _results(group) for group in same}
            tables += _ranks(f"{title_of(first.kind.main)}, ranks by backbone: {where}", sets)
    return Section("Ranks", tuple(tables), (NOTE,) if tables else ())


def _results(group: Group) -> Results:
    """The means of the methods that have the most tasks, a column per task."""
    numbers = [
        {"method": method.removesuffix(" (oracle)"), "column": task, "value": mean}
        for method, of in means_of(group.scores).items()
        for task, mean in of.items()
    ]
    return Results.of(numbers, metric=title_of(group.kind.main))


def _methods(results: Results) -> set[str]:
    return set(results.rows["method"].to_pylist())


def _ranks(title: str, sets: Mapping[str, Results]) -> list[Table]:
    sets = {name: results for name, results in sets.items() if len(_methods(results)) > 1}
    try:
        ranked = ranking(*sets.values(), names=list(sets)) if sets else None
    except InputError:  # no task that every method has
        return []
    return [ranked.table(capital(title))] if ranked else []


def _with_paper(title: str, name: str, board: Results, sets: Mapping[str, Results]) -> list[Table]:
    """Our ranks next to a paper's, over the methods of both."""
    shared = {rule: sorted(_methods(board) & _methods(mine)) for rule, mine in sets.items()}
    chosen = {rule: sets[rule].where(method=of) for rule, of in shared.items() if len(of) >= FEWEST}
    if not chosen:
        return []
    every = sorted(set.intersection(*map(_methods, chosen.values())))
    metric = next(iter(chosen.values())).rows["metric"][0].as_py()
    rows = [row | {"metric": metric} for row in board.where(method=every)]
    return _ranks(title, {name: Results(pa.Table.from_pylist(rows, SCHEMA)), **chosen})


def boards(kind: Kind, family: str) -> Iterator[tuple[str, Results]]:
    """The published rankings that a kind of task has, by our names."""
    if kind.name == "domain generalization":
        if "classic-dg" in family:
            for part in ("test S, Wi, O, Da", "test A, Wi, Da, Di"):
                yield f"nico++ 2, {part}", renamed(published("nico++", 2, part=part, column="Avg."))
        elif "flexible-dg" in family:
            yield "nico++ 3", renamed(published("nico++", 3, row=["Rand.", "Comp."]))
        else:
            for part in PRETRAINED:
                results = published("domainbed-v2", 5, part=part, column=DATASETS)
                yield f"domainbed-v2 5, {part}", renamed(results)
    elif kind.name == "domain adaptation":
        yield "sma 4 to 8, means", renamed(published("sma", row="mean", metric="accuracy"))
    elif kind.name == "universal domain adaptation":
        yield "sma 9 to 13, means", renamed(published("sma", row="mean", metric="H-score"))
    elif kind.name == "label shift":
        yield "rlsbench 5, average", renamed(published("rlsbench", 5, row="Avg"))


def renamed(results: Results) -> Results:
    """The numbers by our names of methods, one row each; RLSbench's corrections are methods."""
    rows = []
    for row in results:
        name, part = NAMES.get(row["method"], row["method"].lower()), row["part"]
        if row["paper"] == "rlsbench":
            prefix, part = CORRECTIONS[part], ""
            name = "+".join(text for text in (prefix, "" if prefix and name == "erm" else name) if text)
        across = row["column"] if row["method"] == row["row"] else row["row"]
        rows.append(row | {"part": part, "row": name, "column": across, "method": name})
    return Results(pa.Table.from_pylist(rows, SCHEMA))
