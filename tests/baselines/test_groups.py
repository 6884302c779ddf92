"""Methods for groups: weights that grow with losses, errors of a first model, balanced last layers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, make_method
from shiftdata.baselines.methods.group_dro import group_means, raised
from shiftdata.errors import InputError
from tests.baselines.problems import PLAIN, problem, trainer_of, weights_of


@pytest.fixture(scope="module")
def data():
    return problem()


def batch_of(trainer, rows, **changes):
    """Some rows to fit as a batch."""
    data = trainer.data
    there = {name: torch.from_numpy(getattr(data, name)[rows]) for name in ("y", "group", "domain")}
    made = Batch(
        trainer.inputs(data.rows[rows]), row=torch.from_numpy(rows), weight=torch.ones(len(rows)), **there
    )
    return replace(made, **changes)


def gradient(loss, trainer):
    return torch.autograd.grad(loss, list(trainer.network.parameters()))


def test_group_means_are_means_of_groups():
    losses, group = torch.tensor([1.0, 3.0, 5.0, 8.0]), torch.tensor([0, 0, 2, 3])
    means, present = group_means(losses, torch.tensor([1.0, 3.0, 2.0, 0.0]), group, 4)
    assert means.tolist() == [2.5, 0, 5, 0]
    assert present.tolist() == [True, False, True, False]
    assert not group_means(losses[:0], losses[:0], group[:0], 2)[0].any()
    with pytest.raises(InputError, match="one number a row"):
        group_means(losses[:, None], torch.ones(4), group, 4)


@pytest.mark.parametrize("name", ["group-dro", "group-dro-domains"])
def test_without_eta_it_is_the_mean_of_group_means(name, data):
    trainer = trainer_of(make_method(name, eta=0.0), data)
    batch = batch_of(trainer, np.arange(120))
    cells = (batch.group if name == "group-dro" else batch.domain).numpy()
    losses = cross_entropy(trainer.network(batch.x), batch.y, reduction="none")
    wanted = torch.stack([losses[cells == one].mean() for one in np.unique(cells)]).mean()
    loss = trainer.method.loss(batch)
    assert math.isclose(loss.item(), wanted.item(), rel_tol=1e-6)
    for one, other in zip(gradient(loss, trainer), gradient(wanted, trainer), strict=True):
        assert torch.allclose(one, other, atol=1e-7)


def test_frozen_losses_raise_log_q_by_eta_times_their_sum(data):
    trainer = trainer_of(make_method("group-dro", eta=0.3), data)
    trainer.network.eval()
    batch = batch_of(trainer, np.arange(120))
    losses = cross_entropy(trainer.network(batch.x), batch.y, reduction="none").detach()
    means, _ = group_means(losses, batch.weight, batch.group, trainer.method.known.groups)
    for _ in range(5):
        loss = trainer.method.loss(batch)
    log_q = trainer.method.log_q
    assert torch.allclose(log_q - log_q[0], 5 * 0.3 * (means - means[0]), atol=1e-5)
    assert math.isclose(float(log_q.exp().sum()), 1, rel_tol=1e-6)
    # The weights are those after the update, and constants: the gradient is the weighted one.
    wanted = (log_q.exp() * means).sum()
    assert math.isclose(loss.item(), wanted.item(), rel_tol=1e-5)
    again = cross_entropy(trainer.network(batch.x), batch.y, reduction="none")
    fixed = log_q.exp()[batch.group] / torch.bincount(batch.group)[batch.group]
    for one, other in zip(gradient(loss, trainer), gradient((fixed * again).sum(), trainer), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_group_that_is_not_there_grows_in_the_code_alone(data):
    rows = np.flatnonzero(data.group != 2)[:60]
    for variant in ("fixed", "code"):
        trainer = trainer_of(make_method("group-dro", variant=variant, eta=0.5, adjustment=4), data)
        method = trainer.method
        before = method.log_q.clone()
        batch = batch_of(trainer, rows)
        losses = cross_entropy(trainer.network(batch.x), batch.y, reduction="none").detach()
        means, _ = group_means(losses, batch.weight, batch.group, len(before))
        growth = 0.5 * (means + 4 / method.known.group_counts.float().sqrt())
        if variant == "fixed":
            growth[2] = 0
        method.loss(batch)
        assert torch.allclose(method.log_q, torch.log_softmax(before + growth, 0), atol=1e-6)
        assert method.sampler == {"fixed": "rwg", "code": "shuffle"}[variant]
    assert make_method("group-dro", variant="code").eta == 0.01


def test_large_losses_do_not_overflow():
    log_q = torch.zeros(2)
    for _ in range(50):
        log_q = raised(log_q, torch.tensor([100.0, 101.0]))
    assert torch.allclose(log_q, torch.tensor([-50.0, 0.0]))


def test_its_weight_goes_to_the_group_that_is_worst(data):
    y = np.where(data.group == 0, (data.y + 1) % 3, data.y)  # labels that contradict their rows
    trainer = trainer_of(make_method("group-dro"), replace(data, y=y), steps=60, batch=0)
    trainer.run()
    assert int(trainer.method.log_q.argmax()) == 0


def test_one_group_is_erm():
    data = problem()
    data = replace(data, group=np.zeros_like(data.group))
    one, other = (trainer_of(make_method(name), data, **PLAIN) for name in ("group-dro", "erm"))
    one.run()
    other.run()
    for pair in zip(weights_of(one), weights_of(other), strict=True):
        assert torch.allclose(*pair, atol=1e-6)
