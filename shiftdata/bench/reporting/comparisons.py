"""Paired comparisons with a baseline, who is ahead, and ranks of methods, next to those of the papers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shiftdata.bench.papers import Results, published, ranking
from shiftdata.bench.papers.numbers import SCHEMA
from shiftdata.bench.reporting.forms import FEWEST_RANKED
from shiftdata.bench.reporting.layouts import NAMES
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
    unit_of,
)
from shiftdata.bench.selection import rule_of
from shiftdata.data.arrays import FloatArray
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.differences import holm, shown_p, student_test
from shiftdata.tables import Table

LEVEL = 0.05
NBSP = "\u00a0"
SURE, UNSURE = "more than noise", "no difference shown"
AHEAD = (
    "Ahead is the method with the highest mean over the tasks that most methods have. Leads are in points; p "
    "is Student's for paired tasks or seeds, with Holm's adjustment for all methods. The first and the next "
    "were picked by these numbers: their difference looks surer than it is."
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
        p = map(shown_p, (pair.p, pair.adjusted))
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
    """Say who is ahead, by how much, and how sure that is: a sentence and a table per kind and backbone."""
    tables: dict[str, list[list[str]]] = {}
    answers: dict[str, str] = {}
    for pool in sorted(pools, key=lambda pool: rule_of(pool.rule).oracle):
        order = _ranked(pool.scores)
        if len(order) < 2:
            continue
        tasks, unit = len(pool.tasks), " %" * (unit_of(pool.kind.main) == "%")
        (first, mean), (second, _) = order[:2]
        behind = [name for name in dict.fromkeys((second, pool.baseline)) if name != first]
        leads = [_lead(pool.scores, first, name) for name in behind]
        main, rule = title_of(pool.kind.main), rule_label(pool.rule)
        about = f"{pool.kind.name}, {pool.backbone}, {tasks:,} task{'s' * (tasks > 1)}"
        title = f"{capital(main)}{',' * bool(unit)}{unit}: {pool.dataset}, {about}"
        answers.setdefault(
            title,
            f"On {pool.dataset} ({about}, selected by {rule}) {first} is ahead: "
            f"{main} {mean:.1f}{unit and NBSP + '%'}, "
            f"{' and '.join(map(_said, leads))}.",
        )
        lines = ([rule, first, f"{mean:.1f}", *lead] for lead in leads)
        tables.setdefault(title, []).extend(lines)
    header = ("selected by", "ahead", "mean", "of", "by", "95 % interval", "p", "verdict")
    plain = tuple(
        Table.plain(title, header, lines, [AHEAD] * (place == len(tables)))
        for place, (title, lines) in enumerate(tables.items(), start=1)
    )
    return Section("Who is ahead", plain, tuple(answers.values()))


def _said(lead: Sequence[str]) -> str:
    behind, points, interval, p, verdict = lead
    if points == "-":
        return f"with no task in common with {behind}"
    tested = "not tested" if p == "-" else f"{verdict}: 95 % interval {interval}, p {p}"
    return f"{points} points over {behind} ({tested})"


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


def _lead(scores: Sequence[Score], first: str, behind: str) -> tuple[str, str, str, str, str]:
    """The method behind, the lead over it in points, its interval and p, and the verdict."""
    pair = next((pair for pair in compared(scores, behind) if pair.method == first), None)
    if pair is None:
        return behind, "-", "-", "-", "no task in common"
    interval = f"{pair.low:+.1f} to {pair.high:+.1f}" if math.isfinite(pair.low) else "-"
    verdict = SURE if pair.verdict == "higher" else UNSURE
    return behind, f"{pair.mean:+.1f}", interval, shown_p(pair.adjusted), verdict


#: RLSbench's tables have RS and RW as parts.
CORRECTIONS = {"None": "", "RW": "rw", "RS": "rs", "RS+RW": "rs+rw"}
DATASETS = ("PACS", "VLCS", "OfficeHome", "NICO++", "DomainNet")
PRETRAINED = ("Supervised ResNet-50", "MoCo-v2 ResNet-50", "MoCo-v3 ViT-B/16")
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
    chosen = {rule: sets[rule].where(method=of) for rule, of in shared.items() if len(of) >= FEWEST_RANKED}
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
