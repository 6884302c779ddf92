"""The price of a sweep: what it counts, what it multiplies, and that steps are measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.baselines.pretrained.model import FeatureEncoder
from shiftdata.bench import price, run_sweep, sweep_of
from shiftdata.bench.pricing import ENCODED, Seconds, _encoding, _small
from shiftdata.data.loading.features import uncached
from shiftdata.data.metadata import read_metadata
from shiftdata.evaluation.protocols import LabelShift
from tests.baselines.pretrained.test_encoder import pictures_model
from tests.bench.jobs import SWEEP


@pytest.fixture
def steps_take(monkeypatch):
    """A step takes 2 s, a row .5 s, the beginning 3 s on the clock, and half of that of the processor."""
    monkeypatch.setattr(
        "shiftdata.bench.pricing._timed", lambda job, device: Seconds(2.0, 0.5, 1.0, 0.25, 3.0, 1.5)
    )


@pytest.mark.usefixtures("steps_take")
def test_runs_are_steps_and_evaluations_and_those_that_are_recorded_cost_nothing(tiny, tmp_path):
    sweep = sweep_of(SWEEP, [str(tiny)])
    before = price(sweep, tmp_path, workers=2)
    rows = [sum(len(task.make().rows(name)) for name in ("validation", "test")) for task in sweep.tasks]
    # 2 methods x 2 trials on each task: 6 steps, evaluated after 3 and 6.
    seconds = sum(4 * (1.5 + 6 * 1.0 + 2 * n * 0.25) for n in rows)
    assert (before.tasks, before.studies, before.runs, before.left) == (2, 4, 8, 8)
    assert math.isclose(before.hours, seconds / 3600)
    assert math.isclose(before.wall, seconds * 2 / 2 / 3600)
    assert [line.runs for line in before.lines.values()] == [4, 4]
    run_sweep(sweep.share(0.5), tmp_path)
    after = price(sweep, tmp_path)
    done = next(n for task, n in zip(sweep.tasks, rows, strict=True) if task in sweep.share(0.5).tasks)
    assert (after.runs, after.left) == (8, 4)
    assert math.isclose(after.hours, (seconds - 4 * (7.5 + 0.5 * done)) / 3600)


@pytest.mark.usefixtures("steps_take")
def test_further_seeds_of_the_best_and_what_cannot_be_made_are_counted(tiny, tmp_path):
    search = {"kind": "tpe", "trials": 6, "seeds": 3, "seeds_of": "best", "rule": "iid"}
    tasks = [{"protocol": "group-fairness", "k": [2, 99], "mu": 0.2}]
    sweep = sweep_of(SWEEP | {"search": search, "tasks": tasks, "methods": ["erm", "dann"]}, [str(tiny)])
    priced = price(sweep, tmp_path)
    assert (priced.studies, priced.runs) == (4, 8)  # erm with k = 2
    assert sum(priced.refused.values()) == 3
    assert "needs a set with the role 'unlabelled'" in str(priced)
    assert not list(tmp_path.iterdir())


HEADS = {"batch": 0, "optimizer": "sgd", "schedule": "constant", "shift": 0, "steps": 200}
STEPS = {"steps": 400, "batch": 8, "evaluate_every": 100}


@pytest.mark.parametrize(
    ("backbones", "training"),
    [
        (["small-cnn", "small-resnet"], STEPS),
        pytest.param("heads", HEADS, marks=pytest.mark.slow),  # reads EfficientNet-Lite0's features
    ],
)
def test_steps_are_measured_and_features_are_not_computed(tiny, tmp_path, monkeypatch, backbones, training):
    def encoded(*given, cache=True, **options):
        assert cache is False

    monkeypatch.setattr("shiftdata.baselines.sets.features_of", encoded)
    tasks = [{"protocol": "group-fairness", "k": 2, "mu": 0.2}]
    changed = {"backbones": backbones, "training": training}
    raw = SWEEP | {"tasks": tasks, "methods": ["erm", "jtt"], "search": {}} | changed
    priced = price(sweep_of(raw, [str(tiny)]), tmp_path)
    kinds = len(priced.lines)
    assert priced.measured[:2] == (kinds, kinds)
    assert all(line.processor > 0 for line in priced.lines.values())


@pytest.mark.parametrize(("head", "is_fitted"), [("labels", False), ("probe", True)])
def test_a_prediction_costs_its_pictures_and_those_its_head_is_fitted_to(
    tiny, tmp_path, monkeypatch, head, is_fitted
):
    monkeypatch.setattr("shiftdata.bench.pricing.load", lambda name, size: pictures_model())
    monkeypatch.setattr("shiftdata.bench.pricing._encoding", lambda *_: (2.0, 1.0))
    tasks = [{"protocol": "group-fairness", "k": 2, "mu": 0.2}]
    raw = {"tasks": tasks, "methods": [f"predict@{head}"], "backbones": "efficientnet-lite1", "rules": "last"}
    sweep = sweep_of(raw, [str(tiny)])
    task = sweep.tasks[0].make()
    rows = sum(len(task.rows(name)) for name, of in task.sets.items() if is_fitted or of.role != "fit")
    assert math.isclose(price(sweep, tmp_path).hours, rows / 3600)


def test_pictures_are_encoded_as_far_as_they_are_timed(tiny):
    metadata = read_metadata(tiny)
    encoder = FeatureEncoder(pictures_model(seed=3))  # no other test caches its features
    rows = np.arange(len(metadata))
    assert len(rows) > ENCODED + 1
    assert min(_encoding(metadata, rows, encoder)) > 0
    assert len(uncached(metadata, rows, encoder)) == len(rows)


def test_rows_drawn_repeatedly_are_timed_once_each(tiny, monkeypatch):
    monkeypatch.setattr("shiftdata.bench.pricing.FEWEST", 3)
    monkeypatch.setattr("shiftdata.bench.pricing.ROWS", 3)
    names = read_metadata(tiny).nuisances
    protocol = LabelShift(source=names[0], target=names[1], alpha=0.5, replacement=True)
    task = sd.task(tiny, protocol, on_empty="report")
    assert any(len(rows) > len(rows.indices) for rows in task.sets.values())
    small = _small(task)
    assert len(small.sets[task.set_of("test")].indices) == 3
