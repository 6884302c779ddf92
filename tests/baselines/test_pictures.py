"""FACT and JiGen: spectra and tiles, what is learned from them, and a teacher that follows."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import losses, make_method
from shiftdata.baselines.losses.pictures import crop_to_tiles, join_tiles, split_tiles, tile_orders
from shiftdata.errors import InputError
from tests.baselines import problems
from tests.baselines.problems import inputs_of, picture_problem


@pytest.fixture(scope="module")
def data():
    return picture_problem(rows=60, target=20, side=15)


trainer_for = partial(problems.trainer_for, backbone="small-cnn", batch=12)


def begun(trainer):
    trainer.run(until=1)
    trainer.method.train()
    return trainer, trainer._batch(trainer.stages[0])


def pictures(rows=4, side=9, seed=0):
    return torch.rand(rows, 3, side, side, generator=torch.Generator().manual_seed(seed))


# FACT.


def test_a_divergence_from_far_logits_is_finite():
    teacher = torch.tensor([[0.0, 4.0, 1.0]])
    far = torch.tensor([[0.0, 3000.0, 0.0]])
    assert losses.distillation(far, teacher, 10.0).isfinite().all()
    assert not losses.distillation(far, teacher, 10.0, stable=False).isfinite().all()  # the released code


def test_fact_is_its_formula(data, monkeypatch):
    trainer, batch = begun(trainer_for("fact", data, trade_off=3.0))
    method, network = trainer.method, trainer.network
    changed = batch.x.flip(3)
    monkeypatch.setattr(method, "_changed", lambda batch: changed)
    with torch.no_grad():
        for parameter in method.teacher.parameters():
            parameter.mul_(1.1)
    both = torch.cat([batch.x, changed])
    own, mixed = network(both).chunk(2)
    taught, taught_mixed = (logits.detach() for logits in method.teacher(both).chunk(2))
    each = (
        cross_entropy(own, batch.y, reduction="none") + cross_entropy(mixed, batch.y, reduction="none")
    ) / 2
    apart = losses.distillation(mixed, taught, 10.0) + losses.distillation(own, taught_mixed, 10.0)
    each = each + 3.0 * math.exp(-5 * (1 - batch.progress / 0.1) ** 2) * apart
    assert torch.allclose(method.loss(batch), each.mean(), atol=1e-5)
    assert all(parameter.grad is None for parameter in method.teacher.parameters())
    method.loss(batch).backward()
    assert all(parameter.grad is None for parameter in method.teacher.parameters())


@pytest.mark.parametrize("decay", [0.6, 0.9995])
def test_the_teacher_follows_the_student(data, decay):
    trainer = trainer_for("fact", data, decay=decay)
    expected = [parameter.detach().clone() for parameter in trainer.network.parameters()]
    for step in range(1, 5):
        trainer.run(until=step)
        share = min(1 - 1 / (step + 1), decay)
        expected = [
            share * old + (1 - share) * new.detach()
            for old, new in zip(expected, trainer.network.parameters(), strict=True)
        ]
        for mine, theirs in zip(trainer.method.teacher.parameters(), expected, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-6)
    with torch.no_grad():
        student = trainer.network.eval()(inputs_of(trainer, data.select))
    assert np.allclose(trainer.scores(data.select), student, atol=1e-5)


def test_the_released_code_cuts_to_whole_bytes(data, monkeypatch):
    monkeypatch.setattr(losses, "amplitude_mix", lambda x, other, lam: torch.full_like(x, 100.7 / 255))
    values = {}
    for variant in ("fixed", "code"):
        trainer, batch = begun(trainer_for("fact", data, variant=variant))
        values[variant] = (trainer.method.pictures(trainer.method._changed(batch)) * 255).mean().item()
    assert values == pytest.approx({"fixed": 100.7, "code": 100.0}, abs=1e-3)


# JiGen.


def test_tiles_are_cut_and_joined():
    x = pictures()
    tiles = split_tiles(x)
    assert torch.equal(join_tiles(tiles), x)
    assert torch.equal(tiles[:, 5], x[:, :, 3:6, 6:9])  # second row, third column
    wide = pictures(side=17)
    assert torch.equal(crop_to_tiles(wide), wide[:, :, 1:16, 1:16])
    assert torch.equal(crop_to_tiles(x), x)
    with pytest.raises(InputError, match="3 x 3 tiles"):
        crop_to_tiles(x[:, :, :2])


@pytest.mark.parametrize(("variant", "in_order"), [("fixed", 0.0), ("code", 1 / 31)])
def test_rows_are_shuffled_as_their_order_says(variant, in_order):
    method = make_method("jigen", whole=0.0, grey=0.0, variant=variant)
    method.register_buffer("orders", tile_orders())
    x = pictures(rows=1).expand(6000, -1, -1, -1)
    torch.manual_seed(0)
    shuffled, order = method.shuffled(x)
    assert (order == 0).float().mean().item() == pytest.approx(in_order, abs=0.007 * (in_order > 0))
    counts = torch.bincount(order)[1:]
    assert len(counts) == 30
    assert counts.min() > 0.5 * counts.float().mean()
    tiles, mine = split_tiles(x[:1])[0], split_tiles(shuffled)
    method.hyper["whole"] = 0.6
    assert (method.shuffled(x)[1] == 0).float().mean().item() == pytest.approx(0.6, abs=0.03)
    for row in range(40):
        assert torch.equal(mine[row], tiles[tile_orders()[order[row]]])


def test_jigen_is_its_formula(data):
    trainer, batch = begun(trainer_for("jigen", data, trade_off=0.4, whole=0.5))
    method, network = trainer.method, trainer.network
    torch.manual_seed(2)
    x, order = method.shuffled(batch.x)
    z = network.features(x)
    each = cross_entropy(network.head(z), batch.y, reduction="none")
    each = each + 0.4 * cross_entropy(method.order_head(z), order, reduction="none")
    torch.manual_seed(2)
    assert torch.allclose(method.loss(batch), each.mean(), atol=1e-5)
