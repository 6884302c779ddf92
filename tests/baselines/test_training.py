"""The small trainer: it learns, draws as its sampler does, repeats, and says why it cannot learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import shiftdata as sd
from shiftdata.baselines import Source, Training, fit, train
from shiftdata.baselines.training import schedule_of
from shiftdata.errors import InputError

QUICK = Training(steps=60, batch=32, learning_rate=0.01, shift=1)


@pytest.fixture(scope="session")
def task(tiny) -> sd.Task:
    return sd.task(tiny, "group-fairness", k=4, mu=0.2)


def blobs(numbers: int, rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes that differ a little in every number, on any scale; some numbers are unknown."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=rows)
    x = generator.normal(size=(rows, numbers)) + y[:, None]
    x[:, 1] = 1e4 + 50 * x[:, 1]
    x[generator.random(rows) < 0.1, 2] = np.nan
    return x.astype(np.float32), y


@pytest.mark.parametrize("numbers", [6, 1200])  # a network with hidden layers, and a linear one
def test_what_can_be_told_apart_is_learned(numbers):
    x, y = blobs(numbers=numbers)
    rows = np.arange(len(y))
    model = fit(x, rows[:200], 5 + 2 * y[:200], training=QUICK)
    predicted = model.predict(rows[200:])
    assert set(predicted.tolist()) <= {5, 7}
    assert (predicted == 5 + 2 * y[200:]).mean() > 0.85


def test_a_task_of_pictures_is_learned_and_judged_by_key(task):
    run = train(task, "rwg", side=24, training=QUICK)
    assert list(run.predictions()) == task.keys("test")
    assert task.evaluate(run.predictions()).mean == run.evaluate().mean > 0.5  # chance: 0.25
    assert run.scores.shape == (len(run.predictions()), len(task.labels))


def test_equal_seeds_give_equal_models_and_others_do_not(task):
    def scores(seed):
        torch.manual_seed(seed + 17)  # the caller's own seed has no say, and is left as it was
        before = torch.random.get_rng_state()
        run = train(task, side=24, training=Training(steps=3, batch=16), seed=seed)
        assert torch.equal(before, torch.random.get_rng_state())
        return run.scores.tolist()

    assert scores(0) == scores(0) != scores(1)


@pytest.mark.parametrize("rule", ["shuffle", "rwg", "subg"])
def test_batches_are_those_of_the_tasks_loader(task, rule):
    """Features are row numbers, which the encoder records."""
    drawn = []

    class Seen(torch.nn.Module):
        def forward(self, x):
            if self.training:
                drawn.append(x[:, 0].round().long().tolist())
            return x

    lines = np.arange(len(task.metadata), dtype=np.float32)[:, None].repeat(2, axis=1)
    method = "erm" if rule == "shuffle" else rule
    run = train(task, method, backbone=Seen(), features=lines, steps=25, batch_size=24, seed=3)
    standard = run.model.trainer._prepare
    size = min(24, task.sampler(rule, "train").total)
    loader = task.loader("train", sampler=rule, features=lines, batch_size=size, drop_last=True, seed=3)
    expected = [x for _ in range(30) for x, _, _ in loader][:25]
    assert drawn == [standard(x)[:, 0].round().long().tolist() for x in expected]
    rows = np.concatenate([x[:, 0].long().numpy() for x in expected])
    counts = np.unique(task.metadata.group[rows], return_counts=True)[1]
    assert len(counts) == 16
    assert (counts.max() / counts.min() < 3) == (rule != "shuffle")


def test_hidden_labels_are_not_trained_on(tiny, monkeypatch):
    uda = sd.task(tiny, "uda", source="red", target="blue")
    with pytest.raises(InputError, match="labels of target_train are hidden"):
        train(uda, side=24, name="target_train")
    quick = Training(steps=3)
    seen = train(uda, side=24, training=quick).scores
    poisoned = uda.metadata.label.copy()
    poisoned[uda.sets["target_train"].indices] = 0
    monkeypatch.setattr(sd.Metadata, "label", poisoned)
    assert (train(uda, side=24, training=quick).scores == seen).all()


def test_what_cannot_be_trained_is_a_reason():
    x, _ = blobs(6, 40)
    none, rows = np.zeros(0, np.int64), np.arange(5)
    with pytest.raises(InputError, match="0 rows of 0 classes"):
        fit(x, none, none)
    with pytest.raises(InputError, match="5 rows of 1 classes"):
        fit(x, rows, np.ones(5, np.int64))
    with pytest.raises(InputError, match="at least 1 step"):
        Training(steps=0)
    with pytest.raises(InputError, match="2 of 5 rows have no line"):
        fit(Source(x, line_of=np.array([0, 1, 2, -1, -1])), rows, np.arange(5))
    one_row = fit(x, rows[:1], np.array([2]), outputs=np.array([1, 2]), training=Training(steps=2))
    assert one_row.predict(none).tolist() == []


def test_one_cycle_rises_over_a_tenth_of_the_steps():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
    rates, seen = schedule_of(optimizer, "one-cycle", 200), []
    for _ in range(200):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        rates.step()
    assert np.argmax(seen) in (19, 20)
    assert max(seen) == pytest.approx(1, abs=1e-3)
    # Down along a cosine: half of the rate in the middle of what is left.
    assert seen[110] == pytest.approx(0.5, abs=0.01)
    assert seen[-1] < 1e-3


@pytest.mark.parametrize("schedule", ["one-cycle", "cosine", "inverse", "constant"])
def test_rates_of_any_number_of_steps(schedule):
    for steps in range(1, 25):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
        rates = schedule_of(optimizer, schedule, steps)
        for _ in range(steps):
            assert 0 < optimizer.param_groups[0]["lr"] <= 1
            optimizer.step()
            rates.step()
