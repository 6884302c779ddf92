"""Averages of weights: valleys of a given list of losses, running and moving means."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from shiftdata.baselines import losses, make_method
from tests.baselines.problems import inputs_of, same, trainer_of


def driven(average, values, held=(), every=1):
    """The number that an average leaves after one value a step, and a loss after every few steps."""
    number, held = torch.zeros(1), iter(held)
    for step, value in enumerate(values):
        number.fill_(float(value))
        average.update([number])
        ended = (step + 1) % every == 0 or step + 1 == len(values)
        if ended and isinstance(average, losses.SWAD):
            average.evaluated(float(next(held, 0.0)))
    average.copy_to([number])
    return number.item()


ONE = [torch.zeros(1)]


def valley(losses, window, patience, ratio):
    """The segments of the valley, from the whole list; None: not converged."""
    for start in range(len(losses) - window + 1):
        if losses[start] == min(losses[start : start + window]):
            break
    else:
        return None
    threshold = (1 + ratio) * np.mean(losses[start : start + window])
    begin = start
    while begin > max(0, start - max(0, patience - window)) and losses[begin - 1] <= threshold:
        begin -= 1
    end = 1 + max(at for at in range(len(losses)) if losses[at] <= threshold)
    for at in range(start, len(losses) - patience + 1):
        if min(losses[at : at + patience]) > threshold:
            end = min(end, at)
            break
    return list(range(begin, end))


@pytest.mark.parametrize(
    "sizes", [(3, 6, 0.3), (3, 6, 0.05), (2, 5, 0.1), (4, 2, 0.1), (3, 3, 0.2), (1, 1, 0)]
)
def test_swad_averages_the_valley(sizes):
    window, patience, ratio = sizes
    generator, seen = np.random.default_rng(0), set()
    for trial in range(40):
        n = 1 + trial % 24
        shape = np.abs(np.linspace(-1, 1.5, n)) if trial % 2 else np.ones(n)
        held = (0.2 + shape + 0.4 * generator.random(n)).astype(np.float32).astype(float)
        values = generator.normal(size=2 * n - (trial % 3 == 0))  # two steps a segment, or one in the last
        average = driven(losses.SWAD(ONE, window, patience, ratio), values, held, every=2)
        segments = valley(held, window, patience, ratio)
        seen.add(segments is None)
        wanted = np.mean(np.concatenate([values[2 * at : 2 * at + 2] for at in (segments or [n - 1])]))
        assert np.isclose(average, wanted, atol=1e-5), (held, segments)
    assert False in seen


@pytest.mark.parametrize(
    ("values", "held", "every", "expected"),
    [
        (np.full(20, 3.0), [1.0] * 20, 1, 3),
        (np.arange(10.0), [9, 8, 7, 1.2, 1, 1.1, 1.2, 1.1, 1.2, 1.1], 1, 6),  # each step of 3 .. 9 once
        (np.arange(13.0), [1, 1.1, 1.2, 1.1] + [9] * 9, 1, 1.5),  # it ends with the valley
        (np.arange(12.0), [6, 5, 4, 3, 2, 1], 2, 10.5),  # no valley: the last segment
    ],
)
def test_swad_by_hand(values, held, every, expected):
    assert driven(losses.SWAD(ONE), values, held, every) == pytest.approx(expected)


def test_a_running_mean_begins_with_the_step_before_its_start():
    assert driven(losses.WeightAverage(ONE, start=5), np.arange(1.0, 11)) == np.mean(range(4, 11))
    assert driven(losses.WeightAverage(ONE, start=1), np.arange(1.0, 4)) == 2
    assert driven(losses.WeightAverage(ONE, start=50), np.arange(1.0, 4)) == 3
    assert not losses.WeightAverage(ONE, start=5).copy_to(ONE)


@pytest.mark.parametrize("warm_up", [False, True])
def test_a_moving_average_is_its_formula(warm_up):
    model = nn.Linear(3, 2)
    average = losses.EMA(model.parameters(), 0.7, warm_up=warm_up)
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    by_hand = [parameter.detach().clone() for parameter in model.parameters()]
    for step in range(1, 6):
        for parameter in model.parameters():
            parameter.data += step * torch.randn(parameter.shape)
        decay = min(1 - 1 / (step + 1), 0.7) if warm_up else 0.7
        expected = [
            decay * m + (1 - decay) * p.detach() for m, p in zip(expected, model.parameters(), strict=True)
        ]
        average.update(model.parameters())
        losses.ema_(by_hand, model.parameters(), 0.7, step if warm_up else None)
    own = [parameter.detach().clone() for parameter in model.parameters()]
    with average.applied(model.parameters()):
        for pair in zip(model.parameters(), expected, strict=True):
            assert torch.allclose(*pair, atol=1e-6)
    assert all(map(torch.equal, own, model.parameters()))
    assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(by_hand, expected, strict=True))
    average.copy_to(model.parameters())
    assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(model.parameters(), expected, strict=True))


def test_swad_renews_the_statistics_of_batch_norm(data):
    trainer = trainer_of(make_method("swad"), data, backbone="mlp-bn", evaluate_every=4, batch=40)
    trainer.run()
    z = trainer.network.encoder[0](inputs_of(trainer, data.rows))
    norm = trainer.network.encoder[1]
    assert torch.allclose(norm.running_mean, z.mean(0), atol=1e-5)
    assert norm.momentum == 0.1
    frozen = trainer_of(
        make_method("swad"), data, backbone="mlp-bn", evaluate_every=4, batch=40, frozen_norm=True
    )
    frozen.run()
    assert not frozen.network.encoder[1].running_mean.any()


def test_eoa_validates_and_predicts_with_the_mean(data):
    chosen = {"backbone": "mlp-bn", "evaluate_every": 1}
    plain, snapshots, buffers = trainer_of(make_method("erm"), data, **chosen), [], []
    trainer = trainer_of(make_method("eoa", start=3), data, **chosen)
    for step in range(1, 21):
        plain.run(until=step)
        if step >= 2:
            snapshots.append([parameter.detach().clone() for parameter in plain.network.parameters()])
            buffers.append(plain.network.encoder[1].running_var.clone())
        if step == 19:
            trainer.run(until=step)
            scores = trainer.scores(data.select)
            assert (trainer.progress.history[-1]["predicted"].numpy() == scores.argmax(1)).all()
            assert not np.allclose(scores, plain.scores(data.select), atol=1e-3)
            assert same(trainer, plain)  # the weights themselves are those of training
    trainer.run()
    for at, parameter in enumerate(trainer.network.parameters()):
        assert torch.allclose(
            parameter, torch.stack([weights[at] for weights in snapshots]).mean(0), atol=1e-5
        )
    assert torch.allclose(trainer.network.encoder[1].running_var, torch.stack(buffers).mean(0), atol=1e-5)
    assert (trainer.progress.history[-1]["predicted"].numpy() == trainer.scores(data.select).argmax(1)).all()
