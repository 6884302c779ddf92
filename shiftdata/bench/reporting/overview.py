"""The first thing to read: who is ahead, on what, selected by which rule, and whether that may be noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shiftdata.bench.reporting.comparisons import Comparison, baseline_of, compared
from shiftdata.bench.reporting.kinds import Kind, title_of
from shiftdata.bench.reporting.scores import Score, rule_label
from shiftdata.bench.reporting.tables import Section, plain_table

HEADER = ("selected by", "ahead", "mean", "over the next", "over the baseline")
SURE = "more than noise"
UNSURE = "may be noise"
READING = (
    "Ahead is the method with the highest mean over the tasks that most methods have. A lead, in points with "
    f"its 95 % interval, is {SURE} where the paired comparison calls it higher after Holm's adjustment for "
    "all methods. The first and the next were picked by these numbers, so their difference looks surer than "
    "it is.",
)


def overview(groups: Mapping[tuple[Kind, str, str], Sequence[Score]], name: str) -> Section:
    """A table for each kind and backbone with a line a rule; `name` is the baseline's."""
    tables: dict[str, list[list[str]]] = {}
    for (kind, backbone, rule), scores in groups.items():
        if line := _line(rule, scores, name):
            tables.setdefault(_title(kind, backbone, scores), []).append(line)
    made = [plain_table(title, HEADER, lines) for title, lines in tables.items()]
    return Section("In short", tuple(made), READING if made else ())


def _title(kind: Kind, backbone: str, scores: Sequence[Score]) -> str:
    tasks = len({one.selected.study.task_id for one in scores})
    methods = len({one.selected.study.method for one in scores})
    datasets = ", ".join(dict.fromkeys(one.dataset for one in scores))
    figure = title_of(kind.main)
    return (
        f"{figure[:1].upper()}{figure[1:]}, %: {methods:,} methods with {backbone}, "
        f"{kind.name} on {datasets}, {tasks:,} task{'s' * (tasks > 1)}"
    )


def _line(rule: str, scores: Sequence[Score], name: str) -> list[str]:
    order = _ranked(scores)
    if len(order) < 2:
        return []
    baseline, (first, second) = baseline_of(scores, name), list(order)[:2]
    over_next, over_baseline = (
        [one for one in compared(scores, other) if one.method == first] for other in (second, baseline)
    )
    known = "it is the baseline" if first == baseline else _lead(baseline, over_baseline)
    leads = [_lead(second, over_next), known]
    return [rule_label(rule), first, f"{order[first]:.1f}", *leads]


def _ranked(scores: Sequence[Score]) -> dict[str, float]:
    """The mean of each method that has as many tasks as any, the highest first."""
    values: dict[str, dict[str, float]] = {}
    for one in scores:
        mean = float(one.main.mean())
        if np.isfinite(mean):
            values.setdefault(one.method, {})[one.selected.study.task_id] = mean
    most = max(map(len, values.values()), default=0)
    means = {method: float(np.mean([*of.values()])) for method, of in values.items() if len(of) == most}
    return dict(sorted(means.items(), key=lambda one: -one[1]))


def _lead(other: str, found: Sequence[Comparison]) -> str:
    if not found:
        return f"{other}: no task in common"
    (one,) = found
    sure = SURE if one.verdict == "higher" else UNSURE
    between = f" ({one.low:+.1f} to {one.high:+.1f})" if np.isfinite(one.low) else ""
    return f"{sure}: {one.mean:+.1f}{between} over {other}"
