"""Verdicts of paired comparisons, and over what they are made."""

from __future__ import annotations

import numpy as np
import pytest

from shiftdata.bench.reporting.comparisons import Comparison, compared
from shiftdata.bench.reporting.scores import scores_of
from shiftdata.evaluation.metrics.differences import student_test
from tests.bench.synthetic import made_task, synthetic


def comparison(differences, adjusted):
    values = np.array(differences)
    return Comparison("a", "tasks", values, len(values), *student_test(values), adjusted)


@pytest.mark.parametrize(
    ("differences", "adjusted", "verdict"),
    [
        ([1.0, 1.1, 0.9, 1.2], 0.01, "higher"),
        ([-1.0, -1.1, -0.9, -1.2], 0.01, "lower"),
        ([1.0, 1.1, 0.9, 1.2], 0.06, "undecided"),  # Holm
        ([1.0, -1.1, 0.9, 1.2], 0.01, "undecided"),  # the interval crosses 0, whatever p says
        ([1.0, 1.0, 1.0], 0.0, "undecided"),
    ],
)
def test_verdicts_need_interval_and_holm(differences, adjusted, verdict):
    assert comparison(differences, adjusted).verdict == verdict


def test_tasks_are_compared_by_their_mean_over_shared_seeds(tmp_path):
    tasks = {words: made_task(words) for words in ("group-fairness k=4 mu=0.5", "group-fairness k=4 mu=0.2")}
    records = synthetic(tmp_path, tasks=tasks, trials=1, failed=[("rwg", 0, 2)])
    scores, _ = scores_of(records, "last")
    (rwg, dro) = compared(scores, "erm")
    assert (rwg.method, dro.method, rwg.pairs, dro.pairs) == ("rwg", "group-dro", 4, 6)
    worst = {
        (score.method, score.selected.study.task_id): [
            100 * records.evaluation(at.run, None, at.step).worst for at in score.selected.runs
        ]
        for score in scores
    }
    expected = [
        np.mean(worst["rwg", task.content_id()]) - np.mean(worst["erm", task.content_id()][:2])
        for task in tasks.values()
    ]
    assert rwg.differences == pytest.approx(expected)
    assert rwg.of == "tasks"


def test_one_task_is_compared_over_its_seeds(tmp_path):
    records = synthetic(tmp_path, tasks={"group-fairness k=4 mu=0.5": made_task()}, seeds=4)
    (first, _) = compared(scores_of(records, "iid")[0], "erm")
    assert (first.of, len(first.differences)) == ("seeds", 4)
