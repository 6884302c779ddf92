"""LP-FT and WiSE-FT: where they begin, what they end in, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import shiftdata as sd
from shiftdata.baselines import Training, make_method
from shiftdata.baselines.pretrained.probe import GRID, LinearProbe
from shiftdata.errors import InputError
from tests.baselines.problems import problem, same, trainer_of, weights_of


def probed(data, backbone: str, l2: float) -> list[torch.Tensor]:
    """The first weights of a network, with a probe for its head."""
    trainer = trainer_of(make_method("erm"), data, backbone=backbone)
    weight, bias = LinearProbe(trainer.features(data.rows), data.y, data.classes).fit(l2)
    with torch.no_grad():
        trainer.network.head.weight.copy_(weight)
        trainer.network.head.bias.copy_(bias)
    return weights_of(trainer)


def close(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(torch.allclose(a.double(), b.double(), atol=1e-6) for a, b in pairs)


def test_fine_tuning_begins_at_a_probe_and_moves_the_encoder(data):
    trainer = trainer_of(make_method("lp-ft", l2=0.01), data, backbone="mlp-bn", steps=5)
    trainer.run(until=0)
    expected = probed(data, "mlp-bn", 0.01)
    assert close(weights_of(trainer), expected)
    trainer.run()
    assert not close(weights_of(trainer)[:1], expected[:1])
    assert trainer.method.report() == {"l2": 0.01}


def test_the_validation_set_chooses_the_penalty_of_the_probe():
    data = problem(rows=60, numbers=4, classes=4)

    def accuracy(l2: float) -> float:
        trainer = trainer_of(make_method("lp-ft", l2=l2), data)
        trainer.run(until=0)
        return float((trainer.scores(data.select).argmax(1) == data.select_y).mean())

    accuracies = {l2: accuracy(l2) for l2 in GRID}
    best = max(l2 for l2, value in accuracies.items() if value == max(accuracies.values()))
    assert len(set(accuracies.values())) > 1
    trainer = trainer_of(make_method("lp-ft"), data)
    trainer.run(until=0)
    assert trainer.method.report() == {"l2": round(best, 6)}
    without = replace(data, select=data.select[:0], select_y=data.select_y[:0])
    trainer = trainer_of(make_method("lp-ft"), without)
    trainer.run(until=0)
    assert trainer.method.report() == {"l2": 0.001}


@pytest.mark.parametrize(("inner", "alpha"), [("lp-ft", 0), ("lp-ft", 0.3), ("lp-ft", 1), ("coral", 0.3)])
def test_weights_are_interpolated_between_the_probe_and_the_end(data, inner, alpha):
    settings = {"backbone": "mlp-bn", "steps": 6}
    trainer = trainer_of(make_method(f"wise+{inner}", alpha=alpha), data, **settings)
    trainer.run(until=0)
    first = weights_of(trainer)
    end = trainer_of(make_method(f"wise+{inner}", alpha=1), data, **settings)
    end.run()
    last = weights_of(end)
    whole = trainer_of(make_method(f"wise+{inner}", alpha=alpha), data, **settings)
    whole.run()
    floats = [at for at, tensor in enumerate(first) if tensor.is_floating_point()]  # not a count of batches
    assert len(floats) > 8  # statistics of batch norm too
    expected = [(1 - alpha) * first[at] + alpha * last[at] for at in floats]
    assert close([weights_of(whole)[at] for at in floats], expected)
    if inner == "lp-ft":
        plain = trainer_of(make_method("lp-ft"), data, **settings)
        plain.run()
        assert same(plain, whole) == (alpha == 1)


def test_evaluations_predict_with_the_interpolated_weights_and_training_goes_on(data):
    settings = {"backbone": "mlp-bn", "steps": 8}
    plain = trainer_of(make_method("lp-ft"), data, **settings)
    trainer = trainer_of(make_method("wise+lp-ft", alpha=0.2), data, evaluate_every=4, **settings)
    trainer.run(until=4)
    plain.run(until=4)
    assert same(plain, trainer)
    short = trainer_of(make_method("wise+lp-ft", alpha=0.2), data, evaluate_every=4, **settings)
    short.run(until=4)
    short.method.eval()
    short.method.finish(short)
    predicted = short.scores(data.select).argmax(1)
    assert (trainer.progress.history[0]["predicted"].numpy() == predicted).all()


def test_a_stage_from_the_first_weights_begins_at_the_probe_too(data):
    trainer = trainer_of(make_method("wise+jtt", first=0.5, alpha=0), data, steps=6)
    trainer.run()
    start = trainer_of(make_method("wise+erm", alpha=0), data, steps=6)
    start.run()
    assert same(trainer, start)


class Encoder(nn.Module):
    """Means of quarters of a picture and a layer over them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 8)
        nn.init.normal_(self.layer.weight, generator=torch.Generator().manual_seed(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(nn.functional.adaptive_avg_pool2d(x, 2).flatten(1))


def test_only_a_pretrained_network_is_fine_tuned(tiny):
    task = sd.task(tiny, "group-fairness", k=4, mu=0.2)
    quick = Training(steps=3, batch=16)
    for name in ("lp-ft", "wise", "wise+rwg"):
        with pytest.raises(InputError, match="small-cnn begins from random ones: use efficientnet-lite0"):
            sd.train(task, name, side=24, training=quick)
    run = sd.train(task, "wise+lp-ft", backbone=Encoder(), side=24, training=quick)
    assert np.isfinite(run.scores).all()
    assert run.about["report"]["l2"] in [round(l2, 6) for l2 in GRID]
    with pytest.raises(InputError, match="eoa, ema and wise all average the weights"):
        make_method("wise+ema+erm")
