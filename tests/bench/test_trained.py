"""Models that come trained as runs of a sweep, and methods of one task alone."""

from __future__ import annotations

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.bench import run_sweep
from shiftdata.bench.sweep import sweep_of
from shiftdata.errors import NotFoundError

FACTORY = """
from torch import nn
from shiftdata.baselines.pretrained.model import Pretrained, weights_hash

def make():
    encoder = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return Pretrained("mine", encoder, 12, lambda x: x.float() / 255, weights_hash(encoder), size=16)
"""
PROTOCOL = "group-fairness k=2 mu=0.2"


@pytest.fixture
def model(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    file = tmp_path / "mine.py"
    file.write_text(FACTORY)
    return f"torch:{file}:make"


def test_a_sweep_predicts_with_a_model_as_predict_does_and_goes_on(tiny, model, tmp_path):
    raw = {
        "name": "trained", "methods": ["predict@probe", "predict@knn"], "backbones": [model],
        "tasks": [{"protocol": PROTOCOL}], "rules": ["last"], "keep": "all",
    }  # fmt: skip
    sweep = sweep_of(raw, [str(tiny)])
    records = run_sweep(sweep, tmp_path / "runs")
    assert sorted(records.column("variant")) == ["knn", "probe"]
    assert records.column("status") == ["done", "done"]
    task = sd.task(tiny, "group-fairness", k=2, mu=0.2)
    for run, head in enumerate(records.column("variant")):
        predicted = np.asarray(records.predicted(run, "test"))
        scores = sd.predict(task, model, head=head).scores_of("test")
        assert predicted.tolist() == task.label_ids[scores.argmax(axis=1)].tolist()
        assert records.about[run]["pretraining"]
    ids = records.column("id")
    assert run_sweep(sweep, tmp_path / "runs").column("id") == ids  # nothing is left


def test_a_head_that_does_not_exist_is_refused(tiny):
    raw = {"name": "trained", "methods": ["predict@prob"], "tasks": [{"protocol": PROTOCOL}]}
    with pytest.raises(NotFoundError, match="unknown head of predict 'prob'; did you mean 'probe'"):
        sweep_of(raw, [str(tiny)])


def test_a_task_names_the_methods_that_are_trained_on_it_and_a_list_of_protocols_is_as_many_tasks(tiny):
    raw = {
        "name": "bounds", "methods": ["erm", "rwg"],
        "tasks": [
            {"protocol": PROTOCOL},
            {"protocol": ["group-fairness k=2 mu=0.1", "group-fairness k=2 mu=0.5"], "methods": "erm"},
        ],
    }  # fmt: skip
    studies = [(spec.protocol[-3:], method.name) for spec, method, _ in sweep_of(raw, [str(tiny)]).studies()]
    assert studies == [("0.2", "erm"), ("0.2", "rwg"), ("0.1", "erm"), ("0.5", "erm")]
