"""The intervals of an evaluation's official figures, by drawing origins again where a figure allows it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.evaluation.metrics.bootstrap import bootstrap_figures
from shiftdata.evaluation.metrics.statistics import GroupStatistic, worst_of
from shiftdata.evaluation.tasks.evaluation import Evaluation
from shiftdata.evaluation.tasks.rows import TaskRows

#: Figures whose intervals come from drawing the origins of each group, class or domain again.
_OVER: Mapping[str, tuple[str, str | GroupStatistic]] = {
    "overall": ("group", "overall"),
    "mean": ("group", "mean"),
    "worst": ("group", "worst"),
    "worst_3": ("group", worst_of(3)),
    "worst_5": ("group", worst_of(5)),
    "mean_class": ("label", "mean"),
    "mean_domain": ("nuisance", "mean"),
    "worst_domain": ("nuisance", "worst"),
}


def intervals_of(result: Evaluation, task: TaskRows) -> dict[str, tuple[float, float]]:
    """An interval for each figure; the figures over one kind of groups share their draws."""
    intervals = {name: figure.interval for name, figure in result.figures.items()}
    for by in ("group", "label", "nuisance"):
        statistics = {
            name: statistic for name, (over, statistic) in _OVER.items() if over == by and name in intervals
        }
        groups = result.by(by)
        if by == "label":
            groups = groups.without_empty()
            in_training = np.isin(np.array(groups.names), task.labels)
            if "h_score" in intervals and 0 < in_training.sum() < len(in_training):
                statistics["h_score"] = _harmonic(in_training)
        if (linked := groups.strata()).size and linked.min() == 1:  # which a draw leaves as it is
            statistics = {name: statistics[name] for name in statistics if name.startswith("worst")}
        if statistics:
            drawn = bootstrap_figures(groups, list(statistics.values()))
            intervals |= {name: (draw.low, draw.high) for name, draw in zip(statistics, drawn, strict=True)}
    return intervals


def _harmonic(known: NDArray[np.bool_]) -> GroupStatistic:
    """The H-score from the accuracy of each class: harmonic mean of known and unknown rows."""

    def share(accuracy: FloatArray, n: IntArray, of: NDArray[np.bool_]) -> FloatArray:
        rows = np.broadcast_to(n, accuracy.shape)[..., of]
        return np.asarray((accuracy[..., of] * rows).sum(axis=-1) / rows.sum(axis=-1))

    def score(accuracy: FloatArray, n: IntArray) -> FloatArray:
        ours, others = share(accuracy, n, known), share(accuracy, n, ~known)
        return np.asarray(2 * ours * others / np.maximum(ours + others, 1e-12))

    return GroupStatistic("h_score", score)
