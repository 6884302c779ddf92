"""MLDG and SagNet: several passes or moves a step, and what each of them reads and moves."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import losses
from shiftdata.baselines.losses.domains import domain_pairs
from tests.baselines import problems
from tests.baselines.problems import PLAIN

ready = partial(problems.ready, sizes=(9, 9, 9), **PLAIN)


# MLDG.


def test_pairs():
    assert domain_pairs([2, 0, 1]) == [(2, 0), (0, 1), (1, 2)]
    assert domain_pairs([1, 0]) == [(1, 0), (0, 1)]
    assert domain_pairs([0]) == []
    assert domain_pairs([3, 1, 0, 2], 1) == [(3, 2), (1, 2), (0, 2)]
    assert domain_pairs([4, 3, 1, 0, 2], 2) == [(4, 0), (3, 2), (1, 0)]
    assert domain_pairs([2, 0, 1], 2) == [(2, 0)]  # of three domains one pair
    assert domain_pairs([1, 0], 2) == domain_pairs([0], 2) == []  # of two domains none


@pytest.mark.parametrize(("variant", "options"), [("fixed", (0, False)), ("code", (2, True))])
def test_a_step_of_mldg_has_each_parameters_rate_of_that_step(data, variant, options, monkeypatch):
    settings = {"encoder_rate": 0.1, "learning_rate": 0.4, "schedule": "one-cycle", "steps": 20}
    trainer, batch = ready("mldg", data, variant=variant, beta=0.7, **settings)
    calls, mldg = [], losses.mldg
    monkeypatch.setattr(
        losses, "mldg", lambda *given, **more: calls.append((given, more)) or mldg(*given, **more)
    )
    trainer.method.step(batch, trainer)
    (_, x, y, domain, rates, beta), more = calls[0]
    assert all(map(torch.equal, (x, y, domain), (batch.x, batch.y, batch.domain)))
    assert (beta, more["meta_test"], more["released"]) == (0.7, *options)
    assert {name.split(".")[0]: pytest.approx(rate) for name, rate in rates.items()} == {
        "encoder": 0.4 / 25 / 10,
        "head": 0.4 / 25,
    }


# SagNet.


def test_a_step_of_sagnet_is_its_three_moves(data):
    trainer, batch = ready("sagnet", data, w_adv=0.6)
    network = copy.deepcopy(trainer.network)
    style, rate = copy.deepcopy(trainer.method.style), trainer.training.learning_rate
    torch.manual_seed(7)
    total = trainer.method.step(batch, trainer)

    def descend(loss, parameters):
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= rate * gradient
        return float(loss.detach())

    torch.manual_seed(7)
    alpha, order = torch.rand(27), torch.randperm(27)
    mixed = losses.style_mixed(network.features(batch.x), alpha, order)
    each = cross_entropy(network.head(mixed), batch.y, reduction="none")
    expected = descend(each.mean(), list(network.parameters()))
    scores = style(losses.content_swapped(network.features(batch.x), torch.randperm(27)))
    each = cross_entropy(scores, batch.y, reduction="none")
    expected += descend(each.mean(), list(style.parameters()))
    scores = style(losses.content_swapped(network.features(batch.x), torch.randperm(27)))
    each = -scores.log_softmax(1).mean(1)
    expected += descend(0.6 * each.mean(), list(network.encoder.parameters()))
    assert total == pytest.approx(expected, rel=1e-5)
    both = zip([*network.parameters(), *style.parameters()], [*trainer.network.parameters(),
               *trainer.method.style.parameters()], strict=True)  # fmt: skip
    assert all(torch.allclose(*pair, atol=1e-6) for pair in both)
