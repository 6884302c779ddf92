"""The tables of each kind of task, laid out as in its paper; NICO++'s table 4 for all kinds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from shiftdata.bench.records import Records
from shiftdata.bench.reporting.scores import (
    OVER_SEEDS,
    Group,
    Score,
    Section,
    alike,
    capital,
    cell,
    cells_of,
    clean,
    gains,
    mean_cell,
    over_steps,
    rule_label,
    title_of,
    unit_of,
)
from shiftdata.bench.selection import rule_of
from shiftdata.data.arrays import FloatArray
from shiftdata.evaluation.metrics import rank_agreement, ranks
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.metrics.statistics import spread
from shiftdata.tables import Cell, Cells, Table

OVER_TASKS = "± is the standard error over seeds (SD / √seeds), in the row of means over scenarios (SEM)."
#: Rankings of fewer methods say nothing.
FEWEST_RANKED = 3
RANKED = (
    "1 is the best: clean by accuracy at severity 0, a shift by the mean accuracy over its severities, 0 "
    "included. Equal values share a rank."
)
#: The last evaluations of a run over which its spread is taken; NICO++: the last 10 epochs.
LAST = 10
ORACLE = "oracle"
ERROR = "± is the standard error over tasks, or over the seeds of a single one."
SPREAD = (
    f"The standard deviation of test figures over the last {LAST} evaluations of a run (or fewer), the mean "
    f"over the chosen runs. {ERROR}"
)
GAP = (
    f"The gain of the model chosen by the test set ({ORACLE}) over the one chosen without it, seed by seed. "
    f"{ERROR}"
)
NO_SPREAD = "Spread over the last steps: each of these runs has one evaluation. Train with evaluate_every."
NO_GAP = (
    "Gap of oracle to source selection: it takes a rule of each kind, such as --rule iid --rule oracle, and "
    "runs with several evaluations or trials."
)


def tables_of(group: Group) -> tuple[Table, ...]:
    """The tables of a group of scores, without empty ones."""
    tables = FORMS.get(group.kind.name, _other)(group)
    return tuple(table for table in tables if table.blocks)


def _table(
    group: Group, head: str, cells: Cells, corner: str | Callable[[str], str], about: str = "", **options: Any
) -> Table:
    notes = group.notes(about) if about else group.notes()
    return Table.of(head, cells, notes, corner, **options)


def _fairness(group: Group) -> list[Table]:
    """Methods over mu, a block for each K; with one setting alone, methods over figures."""

    def k(score: Score) -> str:
        return f"{score.params.get('k', math.nan)}"

    def mu(score: Score) -> str:
        return f"{score.params.get('mu', math.nan):g}"

    figures = [
        name
        for name in ("worst", "worst_3", "mean", "equal_opportunity", "equalized_odds", "overall")
        if group.has(name)
    ]
    if len({(k(score), mu(score)) for score in group.scores}) == 1:
        return [_by_figure(group, figures)]
    scores = sorted(group.scores, key=lambda score: float(k(score)))
    order = sorted(set(map(mu, scores)), key=float)
    return [
        _table(
            group,
            _head(figure),
            cells_of(scores, figure, mu, part=k),
            lambda part: f"K = {part}, by mu",
            order=order,
            drawn=figure == group.kind.main,
        )
        for figure in figures[:-1]
    ]


def _adaptation(group: Group) -> list[Table]:
    """Scenarios in rows, methods in columns, the mean over the scenarios that all methods have below."""
    main = group.kind.main
    cells = cells_of(group.scores, main, lambda score: score.method, row=scenario_of)
    if len(_shared(group)) > 1:
        cells |= {("", "mean", method): mean for method, mean in _means(group, main).items()}
    return [_table(group, _head(main, " by scenario"), cells, "scenario", _over_scenarios(group))]


def _universal(group: Group) -> list[Table]:
    """The H-score by scenario; known, unknown and H-score by method."""
    cells = {
        ("", method, title_of(figure)): mean
        for figure in ("known", "unknown", "h_score")
        for method, mean in _means(group, figure).items()
    }
    head = "Known, unknown and their harmonic mean, %, means over scenarios"
    return [*_adaptation(group), _table(group, head, cells, "", _over_scenarios(group), drawn=False)]


def _over_scenarios(group: Group) -> str:
    shared, total = len(_shared(group)), len({scenario_of(score) for score in group.scores})
    over = f" The means are over the {shared:,} of {total:,} scenarios that all methods have."
    return OVER_TASKS + over * (shared < total)


def scenario_of(score: Score) -> str:
    """Return source and target of a score's task, or its protocol if it names neither."""

    def joined(names: Any) -> str:
        return "+".join(map(str, names)) if isinstance(names, tuple | list) else str(names)

    params = score.params
    if "source" in params and "target" in params:
        return clean(f"{joined(params['source'])} → {joined(params['target'])}")
    return clean(score.selected.study.protocol)


def _shared(group: Group) -> set[str]:
    """The scenarios in which every method has a number."""
    return set.intersection(
        *(
            {scenario_of(score) for score in group.scores if score.method == method}
            for method in group.methods
        )
    )


def _means(group: Group, figure: str) -> dict[str, Cell]:
    """The mean over the shared scenarios of each method, with its standard error over them."""
    shared, points = _shared(group), dict[str, list[float]]()
    for score in group.scores:
        if scenario_of(score) in shared and figure in score.figures:
            points.setdefault(score.method, []).append(float(score.figures[figure].mean()))
    means = {method: mean_cell(values, figure) for method, values in points.items()}
    return {method: mean for method, mean in means.items() if mean is not None}


def _continuous(group: Group) -> list[Table]:
    """Accuracy and drop along the severity, and failure points."""
    tables = []
    names = dict.fromkeys(name for score in group.scores for name in score.figures)
    for start, title in (("accuracy@", "Accuracy"), ("drop@", "Drop of accuracy")):
        cells: Cells = {}
        for name in names:
            if name.startswith(start):
                cells |= cells_of(group.scores, name, name.removeprefix(start))
        drawn = start == "accuracy@"
        tables.append(_table(group, f"{title}, %, by severity", cells, "severity", drawn=drawn))
    sums = [name for name in ("overall", "mean_drop", "mean_failure_point", "failures") if group.has(name)]
    return [*tables, _by_figure(group, sums, drawn=False), *_ranks_by_shift(group)]


def _ranks_by_shift(group: Group) -> list[Table]:
    """The rank of each method under each shift, and Kendall's tau of that ranking with the clean one."""
    values: dict[str, dict[str, list[float]]] = {}
    for score in group.scores:
        clean_of = {"clean": score.figures["accuracy@0"]} if "accuracy@0" in score.figures else {}
        for name, of in (clean_of | dict(score.domains)).items():
            values.setdefault(name, {}).setdefault(score.method, []).append(float(of.mean()))
    methods = group.methods
    whole = all(len(of) == len(methods) for of in values.values())
    if len(methods) < FEWEST_RANKED or "clean" not in values or not whole:
        return []
    means = {name: [float(np.mean(of[method])) for method in methods] for name, of in values.items()}
    body = [methods, *([f"{rank:g}" for rank in ranks(of).tolist()] for of in means.values())]
    taus = [number(rank_agreement(means["clean"], of).kendall, 2) for of in means.values()]
    lines = [*zip(*body, strict=True), ("Kendall's tau with clean", *taus)]
    return [Table.plain("Ranks by shift", ["method", *means], lines, (RANKED, *group.notes()))]


def _label_shift(group: Group) -> list[Table]:
    """Accuracy over alpha, and the gain over the method without a correction."""

    def alpha(score: Score) -> str:
        value = score.params.get("alpha")
        return "none" if value is None else f"{value:g}"

    plain = [method for method in group.methods if not re.match(r"(rs|rw)\b", method)]
    base = group.baseline if group.baseline in group.methods else (plain or group.methods)[0]
    base_scores = {score.task_id: score.by_seed for score in group.scores if score.method == base}
    order = sorted(
        set(map(alpha, group.scores)), key=lambda name: -math.inf if name == "none" else -float(name)
    )
    accuracy = cells_of(group.scores, "overall", alpha)
    tables = [("Accuracy, %, by alpha", accuracy, True)]
    if len(group.methods) > 1:
        relative = cells_of(
            group.scores,
            "relative accuracy",
            alpha,
            values=lambda score: gains(score, base_scores.get(score.task_id, {})),
        )
        tables.append((f"Accuracy above that of {base}, points, by alpha", relative, True))
    if group.has("marginal_error"):
        error = cells_of(group.scores, "marginal_error", alpha)
        tables.append(("Error of the marginal of labels (l1, 0 to 2), by alpha", error, False))
    return [_table(group, title, cells, "alpha", order=order, drawn=drawn) for title, cells, drawn in tables]


def _domains(group: Group) -> list[Table]:
    """Methods over test domains, with their average and its rank."""
    domains = list(dict.fromkeys(name for score in group.scores for name in score.domains))
    cells: Cells = {}
    for name in domains:
        scores = [score for score in group.scores if name in score.domains]
        cells |= cells_of(scores, "accuracy", name, values=partial(_accuracies, name))
    averages = {method: mean for method in group.methods if (mean := _average(group, method, len(domains)))}
    cells |= {("", method, "average"): mean for method, mean in averages.items()}
    if len(averages) > 1:
        order = ranks([round(mean.value, 6) for mean in averages.values()]).tolist()
        for method, rank in zip(averages, order, strict=True):
            cells["", method, "rank"] = cell(rank, math.nan, "rank")
    left_out = ", ".join(method for method in group.methods if method not in averages)
    about = f"{OVER_SEEDS} Without a number for every domain, and so without an average: {left_out}."
    return [_table(group, "Accuracy, %, by test domain", cells, "test domain", about if left_out else "")]


def _accuracies(domain: str, score: Score) -> FloatArray:
    return score.domains[domain]


def _average(group: Group, method: str, domains: int) -> Cell | None:
    """The average over test domains: of each seed, then over seeds; None where a domain has no number."""
    by_seed: dict[int, dict[str, list[float]]] = {}
    for score in group.scores:
        for name, values in score.domains.items() if score.method == method else ():
            for seed, value in zip(score.seeds, values.tolist(), strict=True):
                by_seed.setdefault(seed, {}).setdefault(name, []).append(value)
    means = [[np.mean(values) for values in of.values()] for of in by_seed.values() if len(of) == domains]
    return mean_cell([float(np.mean(of_domains)) for of_domains in means], "accuracy")


def _other(group: Group) -> list[Table]:
    """Methods over tasks, one table per figure; with one task, methods over figures."""
    figures = list(dict.fromkeys(name for score in group.scores for name in score.figures))
    if len(group.tasks) == 1:
        return [_by_figure(group, figures)]
    return [
        _table(
            group,
            _head(figure),
            cells_of(group.scores, figure, lambda score: clean(score.selected.study.protocol)),
            "task",
            drawn=figure == group.kind.main,
        )
        for figure in figures
    ]


def _by_figure(group: Group, figures: list[str], *, drawn: bool = True) -> Table:
    """Methods in rows, figures in columns."""
    cells: Cells = {}
    for figure in figures:
        head = title_of(figure) if unit_of(figure) == "%" else f"{title_of(figure)} ({unit_of(figure)})"
        cells |= cells_of(group.scores, figure, head)
    return _table(group, "Figures, %", cells, "method", drawn=drawn)


def _head(figure: str, by: str = "") -> str:
    unit = unit_of(figure)
    return f"{capital(title_of(figure))}{by}{', %' if unit == '%' else f' ({unit})'}"


#: The tables of a kind, by its name.
FORMS: Mapping[str, Callable[[Group], list[Table]]] = {
    "group fairness": _fairness,
    "domain adaptation": _adaptation,
    "universal domain adaptation": _universal,
    "continuous shift": _continuous,
    "label shift": _label_shift,
    "domain generalization": _domains,
}


def stability_section(records: Records, pools: Sequence[Group]) -> Section:
    """Spreads and oracle gains for each kind and backbone, or a note that records lack them."""

    def deviations(score: Score) -> list[float]:
        return [spread(of) for of in over_steps(records, score, LAST) if len(of) > 1]

    spreads, gaps = [], []
    for same in alike(pools, "kind", "backbone"):
        kind, of = same[0].kind, {pool.rule: pool.scores for pool in same}
        unit = "points" if unit_of(kind.main) == "%" else unit_of(kind.main)
        subject = f"{title_of(kind.main)}, {unit}: {kind.name}, {same[0].backbone}"
        source = {rule: scores for rule, scores in of.items() if not rule_of(rule).oracle}
        columns = {f"selected by {rule_label(rule)}": scores for rule, scores in (source or of).items()}
        spreads += _of_columns(f"Spread over the last evaluations of {subject}", columns, deviations, SPREAD)
        columns = {f"{ORACLE} - {rule}": scores for rule, scores in source.items()}
        gaps += _of_columns(f"Gap of {ORACLE} to source selection, {subject}", columns, _losses(of), GAP)
    notes = [note for note, tables in ((NO_SPREAD, spreads), (NO_GAP, gaps)) if not tables]
    return Section("Test variance and what an oracle gains", (*spreads, *gaps), tuple(notes))


def _losses(of: Mapping[str, Sequence[Score]]) -> Callable[[Score], list[float]]:
    """The gain of the oracle over a score, seed by seed; empty where the oracle had no choice."""
    best = {
        score.selected.study.id: score.by_seed
        for score in of.get(ORACLE, ())
        if score.selected.among > len(score.seeds)
    }
    return lambda score: [-gain for gain in gains(score, best.get(score.selected.study.id, {}))]


def _of_columns(
    title: str,
    columns: Mapping[str, Sequence[Score]],
    values: Callable[[Score], list[float]],
    note: str,
) -> list[Table]:
    cells: Cells = {}
    for name, scores in columns.items():
        cells |= cells_of(scores, scores[0].kind.main, name, values=values)
    return [Table.of(title, cells, (note,), "method", drawn=False)] if cells else []
