"""The tables of each kind of task, as its paper has them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from shiftdata.bench.reporting.kinds import clean, title_of, unit_of
from shiftdata.bench.reporting.scores import Cell, Score, cell_of, standard_error
from shiftdata.bench.reporting.tables import (
    OVER_SEEDS,
    OVER_TASKS,
    Group,
    Table,
    columns_in_order,
    laid_out,
    number,
    table_of,
)
from shiftdata.metrics import ranks
from shiftdata.metrics.arrays import FloatArray

MEAN = "mean"


def tables_of(group: Group) -> tuple[Table, ...]:
    """The tables of a group of scores."""
    tables = FORMS.get(group.kind.name, _other)(group)
    return tuple(one for one in tables if one.grids)


def _fairness(group: Group) -> list[Table]:
    """Methods over mu, a block for each K; with one setting alone, methods over figures."""
    notes, settings = group.notes(OVER_SEEDS), {_setting(one) for one in group.scores}
    figures = [one for one in ("worst", "worst_3", "mean", "overall") if _has(group, one)]
    if len(settings) == 1:
        return [_by_figure(group, figures)]
    made = []
    for figure in figures[:-1]:
        numbers = laid_out(
            group.scores, figure, part=lambda one: _setting(one)[0], column=lambda one: _setting(one)[1]
        )
        numbers.sort(key=lambda one: float(one["part"] or "nan"))
        numbers = columns_in_order(numbers, sorted({mu for _, mu in settings}, key=float))
        made.append(
            table_of(
                f"{_head(figure)}: {group.title}", numbers, notes,
                corner=lambda k: f"K = {k}, by mu", drawn=figure == group.kind.main,
            )
        )  # fmt: skip
    return made


def _setting(one: Score) -> tuple[str, str]:
    return f"{one.params.get('k', math.nan)}", f"{one.params.get('mu', math.nan):g}"


def _adaptation(group: Group) -> list[Table]:
    """Scenarios in rows, methods in columns, the mean below."""
    return [_scenarios(group, group.kind.main)]


def _universal(group: Group) -> list[Table]:
    """The H-score of each scenario; what it is made of, by method."""
    shared = _shared(group)
    numbers = []
    for figure in ("known", "unknown", "h_score"):
        for method in group.methods:
            of = [one for one in group.scores if one.method == method and _scenario(one) in shared]
            if (cell := _mean(of, figure)) is not None:
                numbers.append(number("", method, title_of(figure), method, title_of(figure), cell))
    spread = f"means over the {len(shared):,} scenarios that all methods have, ± their standard error (SEM)."
    title = f"Known, unknown and their harmonic mean, %: {group.title}"
    means = table_of(title, numbers, group.notes(spread), drawn=False)
    return [_scenarios(group, "h_score"), means]


def _scenarios(group: Group, figure: str) -> Table:
    numbers = []
    for row in dict.fromkeys(map(_scenario, group.scores)):
        for method in group.methods:
            of = [one for one in group.scores if one.method == method and _scenario(one) == row]
            if (cell := cell_of(of, lambda one: one.figures.get(figure), unit_of(figure))) is not None:
                numbers.append(number("", row, method, method, title_of(figure), cell))
    shared = _shared(group)
    for method in group.methods:
        of = [one for one in group.scores if one.method == method and _scenario(one) in shared]
        if len(shared) > 1 and (cell := _mean(of, figure)) is not None:
            numbers.append(number("", MEAN, method, method, title_of(figure), cell))
    notes = group.notes(OVER_TASKS)
    every = len({_scenario(one) for one in group.scores})
    if 0 < len(shared) < every:
        notes += (f"The means are over the {len(shared):,} of {every:,} scenarios that all methods have.",)
    return table_of(
        f"{_head(figure, ' by scenario')}: {group.title}", numbers, notes, corner=lambda _: "scenario"
    )


def _scenario(one: Score) -> str:
    params = one.params
    if "source" in params and "target" in params:
        return clean(f"{_joined(params['source'])} → {_joined(params['target'])}")
    return clean(one.selected.study.protocol)


def _joined(names: Any) -> str:
    return "+".join(map(str, names)) if isinstance(names, tuple | list) else str(names)


def _shared(group: Group) -> set[str]:
    """The scenarios in which every method has a number."""
    of = [{_scenario(one) for one in group.scores if one.method == method} for method in group.methods]
    return set.intersection(*of)


def _mean(scores: list[Score], figure: str) -> Cell | None:
    """The mean over scenarios, with its standard error over them."""
    points = np.array([one.figures[figure].mean() for one in scores if figure in one.figures])
    if not len(points) or not np.isfinite(points).all():
        return None
    return Cell(float(points.mean()), standard_error(points), unit_of(figure))


#: Figures along the severity: how their names begin, the title, the metric.
_ALONG = (
    ("accuracy@", "Accuracy, %, by severity", "accuracy"),
    ("drop@", "Drop of accuracy, %, by severity", "accuracy drop"),
)


def _continuous(group: Group) -> list[Table]:
    """Accuracy and drop along the severity, and failure points."""
    notes, made = group.notes(OVER_SEEDS), []
    names = dict.fromkeys(name for one in group.scores for name in one.figures)
    for start, title, metric in _ALONG:
        numbers = []
        for name in [one for one in names if one.startswith(start)]:
            numbers += laid_out(group.scores, name, column=name.removeprefix(start))
        numbers = [one | {"metric": metric} for one in numbers]
        title, drawn = f"{title}: {group.title}", start == "accuracy@"
        made.append(table_of(title, numbers, notes, corner=lambda _: "severity", drawn=drawn))
    sums = [one for one in ("overall", "mean_drop", "mean_failure_point", "failures") if _has(group, one)]
    return [*made, _by_figure(group, sums, drawn=False)]


def _label_shift(group: Group) -> list[Table]:
    """Accuracy over alpha, and how far it is above the method without a correction."""
    notes = group.notes(OVER_SEEDS)
    order = sorted(
        {_alpha(one) for one in group.scores}, key=lambda one: -math.inf if one == "none" else -float(one)
    )
    title, base = f"Accuracy, %, by alpha: {group.title}", _uncorrected(group)
    numbers = columns_in_order(laid_out(group.scores, "overall", column=_alpha), order)
    made = [table_of(title, numbers, notes, corner=lambda _: "alpha")]
    if len(group.methods) > 1:
        start = {one.selected.study.task_id: one for one in group.scores if one.method == base}
        numbers = laid_out(
            group.scores,
            "relative accuracy",
            column=_alpha,
            values=lambda one: _above(one, start.get(one.selected.study.task_id)),
        )
        numbers = columns_in_order(numbers, order)
        relative = f"Accuracy above that of {base}, points, by alpha: {group.title}"
        made.append(table_of(relative, numbers, notes, corner=lambda _: "alpha"))
    if _has(group, "marginal_error"):
        numbers = columns_in_order(laid_out(group.scores, "marginal_error", column=_alpha), order)
        error = f"Error of the marginal of labels (l1, 0 to 2), by alpha: {group.title}"
        made.append(table_of(error, numbers, notes, corner=lambda _: "alpha", drawn=False))
    return made


def _alpha(one: Score) -> str:
    alpha = one.params.get("alpha")
    return "none" if alpha is None else f"{alpha:g}"


def _uncorrected(group: Group) -> str:
    """The baseline, or the first method that corrects nothing."""
    plain = [one for one in group.methods if not re.match(r"(rs|rw)\b", one)]
    return group.baseline if group.baseline in group.methods else (plain or group.methods)[0]


def _above(one: Score, base: Score | None) -> FloatArray | None:
    """How far a study is above another, for each seed that both have."""
    if base is None:
        return None
    values = dict(zip(base.seeds, base.main.tolist(), strict=True))
    pairs = [
        (mine, values[seed])
        for seed, mine in zip(one.seeds, one.main.tolist(), strict=True)
        if seed in values
    ]
    return np.array([mine - theirs for mine, theirs in pairs]) if pairs else None


def _domains(group: Group) -> list[Table]:
    """Methods over test domains, with their average and its rank."""
    domains = list(dict.fromkeys(name for one in group.scores for name in one.domains))
    numbers = []
    for name in domains:
        some = [one for one in group.scores if name in one.domains]
        numbers += laid_out(some, "accuracy", column=name, values=partial(_domain, name))
    averages = {method: cell for method in group.methods if (cell := _average(group, method, domains))}
    for method, cell in averages.items():
        numbers.append(number("", method, "average", method, "accuracy", cell))
    if len(averages) > 1:
        order = ranks([round(one.value, 6) for one in averages.values()]).tolist()
        for method, rank in zip(averages, order, strict=True):
            numbers.append(number("", method, "rank", method, "rank", Cell(rank, math.nan, "rank")))
    notes = group.notes(OVER_SEEDS)
    if lost := [one for one in group.methods if one not in averages]:
        notes += (f"Without a number for every domain, and so without an average: {', '.join(lost)}.",)
    return [
        table_of(
            f"Accuracy, %, by test domain: {group.title}", numbers, notes, corner=lambda _: "test domain"
        )
    ]


def _domain(name: str, one: Score) -> FloatArray:
    return one.domains[name]


def _average(group: Group, method: str, domains: list[str]) -> Cell | None:
    """The average over test domains: of each seed, then over seeds; None where a domain has no number."""
    by_seed: dict[int, dict[str, list[float]]] = {}
    for one in group.scores:
        for name, values in one.domains.items() if one.method == method else ():
            for seed, value in zip(one.seeds, values.tolist(), strict=True):
                by_seed.setdefault(seed, {}).setdefault(name, []).append(value)
    whole = [of for of in by_seed.values() if len(of) == len(domains)]
    if not whole:
        return None
    points = np.array([np.mean([np.mean(values) for values in of.values()]) for of in whole])
    return Cell(float(points.mean()), standard_error(points), "%") if np.isfinite(points).all() else None


def _other(group: Group) -> list[Table]:
    """Methods over tasks, a block a figure; of one task alone, methods over figures."""
    figures = list(dict.fromkeys(name for one in group.scores for name in one.figures))
    if len(group.tasks) == 1:
        return [_by_figure(group, figures)]
    made = []
    for figure in figures:
        numbers = laid_out(group.scores, figure, column=lambda one: clean(one.selected.study.protocol))
        made.append(
            table_of(
                f"{_head(figure)}: {group.title}", numbers, group.notes(OVER_SEEDS),
                corner=lambda _: "task", drawn=figure == group.kind.main,
            )
        )  # fmt: skip
    return made


def _by_figure(group: Group, figures: list[str], *, drawn: bool = True) -> Table:
    """Methods in rows, a column a figure."""
    numbers = []
    for figure in figures:
        head = title_of(figure) if unit_of(figure) == "%" else f"{title_of(figure)} ({unit_of(figure)})"
        numbers += laid_out(group.scores, figure, column=head)
    return table_of(
        f"Figures, %: {group.title}", numbers, group.notes(OVER_SEEDS), corner=lambda _: "method", drawn=drawn
    )


def _head(figure: str, by: str = "") -> str:
    title, unit = title_of(figure), unit_of(figure)
    return f"{title[:1].upper()}{title[1:]}{by}{', %' if unit == '%' else f' ({unit})'}"


def _has(group: Group, figure: str) -> bool:
    return any(figure in one.figures for one in group.scores)


#: By the name of the kind; another form is another entry.
FORMS: Mapping[str, Callable[[Group], list[Table]]] = {
    "group fairness": _fairness,
    "domain adaptation": _adaptation,
    "universal domain adaptation": _universal,
    "continuous shift": _continuous,
    "label shift": _label_shift,
    "domain generalization": _domains,
}
