"""Standard errors and intervals of evaluations against the truth: simulated models on 20 tasks.

    python scripts/bench/errors.py [--models 400] [--seed 0]

A model is right on a row with a probability of .7. A third of its errors are of origins, of which it gets
every row wrong; the others are of rows. So all accuracies are .7 in truth, and the standard deviation of a
figure over models is what its reported error should be. For each figure: the root of the mean squared error
that is reported over that standard deviation, the coverage of its interval, of that on a leaderboard
(bootstrap), of the leaderboard's paired difference from a second model, and of the intervals of groups on a
page of predictions.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import shiftdata as sd
from shiftdata.bench.leaderboard.judging import scores_of
from shiftdata.data.metadata import Metadata, metadata_from_table
from shiftdata.evaluation.tasks import Task
from shiftdata.tables import aligned

LABELS, STYLES, ACCURACY, OF_ORIGINS = 20, 4, 0.7, 1 / 3
FIGURES = ("overall", "mean_class", "mean", "mean_domain", "known", "accuracy@2", "mean_drop", "failures")
#: What protocols are given, after their name; on origins with a row in every style, and on such with one row.
TASKS = (
    ("label-shift", {"alpha": 0.5}),
    ("label-shift", {"alpha": 1}),
    ("label-shift", {"alpha": 3}),
    ("label-shift", {"alpha": 10}),
    ("label-shift", {"alpha": 0.5, "replacement": False}),
    ("group-fairness", {"k": 4, "mu": 0.2}),
    ("uda", {"source": "style0", "target": "style1"}),
    ("unida", {"source": "style0", "target": "style1"}),
    ("leave-one-domain-out", {"test": "style2"}),
)


def tasks() -> Iterator[tuple[str, Task]]:
    """Each task with its name."""
    for shared in (True, False):
        rows = rows_of(shared)
        for name, given in TASKS:
            words = " ".join(f"{key}={value}" for key, value in given.items())
            yield (
                f"{name} {words}{'' if shared else ', own origins'}",
                sd.task(rows, name, on_empty="report", **given),
            )
    yield "all rows", sd.task(rows_of(True))
    yield "continuous", sd.task(rows_of(True, severities=(0.0, 1.0, 2.0)), "continuous")


def rows_of(shared: bool, severities: tuple[float, ...] = ()) -> Metadata:
    """Labels, styles and origins: 50 a label, or as many a label and style."""
    columns: dict[str, list[object]] = {name: [] for name in ("key", "label", "style", "origin", "severity")}
    for label in range(LABELS):
        for style in range(STYLES):
            for number in range(50):
                for severity in severities or (0.0,):
                    origin = f"{label}-{number}" if shared else f"{label}-{style}-{number}"
                    values = (
                        f"{origin}-{style}-{severity}",
                        f"label{label:02d}",
                        f"style{style}",
                        origin,
                        severity,
                    )
                    for column, value in zip(columns.values(), values, strict=True):
                        column.append(value)
    scale = {"severity": "severity"} if severities else {}
    return metadata_from_table(
        pa.table(columns), label="label", nuisance="style", key="key", origin="origin", **scale
    )


def outcomes(task: Task, generator: np.random.Generator) -> np.ndarray:
    """The predictions of one model for the rows of the test."""
    rows = task.rows(task.set_of("test"))
    true, origin = task.metadata.label[rows].astype(np.int64), task.metadata.origin[rows]
    failing = generator.random(len(task.metadata.origin_names)) < (1 - ACCURACY) * OF_ORIGINS
    right = ~failing[origin] & (generator.random(len(rows)) < ACCURACY / (1 - (1 - ACCURACY) * OF_ORIGINS))
    known = task.label_ids
    wrong = known[(np.searchsorted(known, true) + 1) % len(known)]
    if "universal" in task.history.metrics:
        true, wrong = (
            np.where(np.isin(true, known), true, -1),
            np.where(np.isin(true, known), wrong, known[0]),
        )
    return np.where(right, true, wrong)


def simulate(name: str, task: Task, models: int, seed: int) -> list[list[str]]:
    """A line for each figure of a task."""
    values: dict[str, list[tuple[float, ...]]] = {}
    groups: list[bool] = []
    for model in range(models):
        generator = np.random.default_rng([seed, model])
        result, other = (task.evaluate(outcomes(task, generator)) for _ in range(2))
        scores, others = (scores_of([one], task) for one in (result, other))
        for figure in FIGURES:
            if figure in result.figures:
                one, score = result.figures[figure], scores[figure]
                paired = score.minus(others[figure])
                values.setdefault(figure, []).append(
                    (one.value, one.sem, *one.interval, score.low, score.high, *paired)
                )
        groups += [low <= ACCURACY <= high for low, high in result.groups.without_empty().intervals()]
    lines = []
    for figure, drawn in values.items():
        value, sem, low, high, least, most, below, above = np.array(drawn).T
        truth = float(value.mean()) if figure in ("mean_drop", "failures") else ACCURACY
        truth = 0.0 if figure == "mean_drop" else truth
        ratio = f"{np.sqrt(np.mean(sem**2)) / value.std():.2f}"
        covered = [np.mean((a <= truth) & (truth <= b)) for a, b in ((low, high), (least, most))]
        pairs = np.mean((below <= 0) & (above >= 0)) if np.isfinite(below).all() else np.nan
        shown = [f"{one:.3f}" if np.isfinite(one) else "-" for one in (*covered, pairs, np.mean(groups))]
        counted = result.figures[figure].rows
        lines.append([name, figure, counted, f"{value.std():.4f}", ratio, *shown])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=400, help="models a task (default: 400)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [line for name, task in tasks() for line in simulate(name, task, options.models, options.seed)]
    header = ["task", "figure", "n", "sd", "sem / sd", "interval", "leaderboard", "paired", "groups"]
    print(aligned(header, lines))


if __name__ == "__main__":
    main()
