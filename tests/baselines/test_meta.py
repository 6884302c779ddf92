"""MLDG and SagNet: several passes or moves a step, and what each of them reads and moves."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, losses, make_method
from shiftdata.baselines.losses.domains import domain_pairs
from tests.baselines.problems import PLAIN, inputs_of, problem, trainer_of


@pytest.fixture(scope="module")
def data():
    return problem()


def ready(name, data, sizes=(9, 9, 9), variant="fixed", settings=PLAIN, backbone="mlp", **hyper):
    """A trainer, and a batch with so many rows of each domain, shuffled, of unequal weight."""
    trainer = trainer_of(make_method(name, variant=variant, **hyper), data, backbone=backbone, **settings)
    rows = np.concatenate([np.flatnonzero(data.domain == at)[:size] for at, size in enumerate(sizes)])
    rows = np.random.default_rng(0).permutation(rows)
    y, group, domain = (torch.from_numpy(one[rows]) for one in (data.y, data.group, data.domain))
    weight = torch.linspace(0.5, 1.5, len(rows))
    batch = Batch(inputs_of(trainer, data.rows[rows]), y, group, domain, torch.from_numpy(rows), weight)
    return trainer, batch


def domain_loss(network, batch, rows):
    losses = cross_entropy(network(batch.x[rows]), batch.y[rows], reduction="none")
    return (losses * batch.weight[rows]).sum() / batch.weight[rows].sum()


def gradients(loss, network):
    return torch.autograd.grad(loss, list(network.parameters()))


# MLDG.


def test_pairs():
    assert domain_pairs([2, 0, 1]) == [(2, 0), (0, 1), (1, 2)]
    assert domain_pairs([1, 0]) == [(1, 0), (0, 1)]
    assert domain_pairs([0]) == []
    assert domain_pairs([3, 1, 0, 2], 1) == [(3, 2), (1, 2), (0, 2)]
    assert domain_pairs([4, 3, 1, 0, 2], 2) == [(4, 0), (3, 2), (1, 0)]
    assert domain_pairs([2, 0, 1], 2) == [(2, 0)]  # of three domains one pair
    assert domain_pairs([1, 0], 2) == domain_pairs([0], 2) == []  # of two domains none


def manual(trainer, batch, chosen, step):
    """The gradient by copies of the network, one a pair."""
    network, domains = trainer.network, list(losses.rows_of_each(batch.domain).values())
    total = [torch.zeros_like(one) for one in network.parameters()]
    for i, j in chosen:
        clone = copy.deepcopy(network)
        first = gradients(domain_loss(clone, batch, domains[i]), clone)
        step(clone, first)
        second = gradients(domain_loss(clone, batch, domains[j]), clone)
        found = zip(total, first, second, strict=True)
        total = [a + (b + trainer.method.beta * c) / len(domains) for a, b, c in found]
    return total


def by_sgd(rate):
    def step(clone, found):
        with torch.no_grad():
            for parameter, one in zip(clone.parameters(), found, strict=True):
                parameter.sub_(rate * one)

    return step


def by_adam(rate):
    def step(clone, found):
        adam = torch.optim.Adam(clone.parameters(), rate)
        for parameter, one in zip(clone.parameters(), found, strict=True):
            parameter.grad = one.clone()
        adam.step()
        adam.zero_grad()

    return step


@pytest.mark.parametrize(("backbone", "sizes"), [("mlp", (9, 9, 9)), ("mlp-bn", (7, 3, 5))])
@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_mldg_is_its_formula(data, backbone, variant, sizes):
    settings = PLAIN | {"learning_rate": 0.3}
    trainer, batch = ready("mldg", data, sizes, variant, settings, backbone, beta=0.7)
    trainer.network.train()
    torch.manual_seed(5)
    order = torch.randperm(3).tolist()
    chosen = domain_pairs(order, 0 if variant == "fixed" else 2)
    expected = manual(trainer, batch, chosen, by_sgd(0.3) if variant == "fixed" else by_adam(0.3))
    plain = manual(trainer, batch, chosen, lambda clone, found: None)
    before = [one.detach().clone() for one in trainer.network.parameters()]
    torch.manual_seed(5)
    trainer.method.step(batch, trainer)
    for old, new, wanted, other in zip(before, trainer.network.parameters(), expected, plain, strict=True):
        assert torch.allclose((old - new) / 0.3, wanted, atol=2e-4)
        assert not torch.allclose(wanted, other, atol=2e-4) or wanted.abs().max() < 1e-3


def test_the_inner_step_has_each_parameters_rate_of_that_step(data, monkeypatch):
    settings = {"encoder_rate": 0.1, "learning_rate": 0.4, "schedule": "one-cycle", "steps": 20}
    trainer, batch = ready("mldg", data, settings=settings)
    seen, whole = [], losses.mldg
    monkeypatch.setattr(losses, "mldg", lambda *given, **more: seen.append(given[4]) or whole(*given, **more))
    trainer.method.step(batch, trainer)
    assert {name.split(".")[0]: pytest.approx(rate) for name, rate in seen[0].items()} == {
        "encoder": 0.4 / 25 / 10,
        "head": 0.4 / 25,
    }


# SagNet.


def z_of(rows=7, features=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, features, generator=generator) * 2 + 1


@pytest.mark.parametrize("scale", [1.0, 3e-3])  # the small ones have variances about eps
def test_styles_and_contents_are_their_formula(scale):
    z, order = z_of() * scale, torch.tensor([3, 0, 6, 5, 1, 2, 4])
    alpha = torch.linspace(0, 1, 7)
    rows = z.numpy().astype(float)
    mu, var = rows.mean(1), rows.var(1, ddof=1)
    content = (rows - mu[:, None]) / np.sqrt(var + 1e-5)[:, None]
    other, a = order.numpy(), alpha.numpy()
    mixed = content * np.sqrt(a * var + (1 - a) * var[other] + 1e-5)[:, None]
    mixed += (a * mu + (1 - a) * mu[other])[:, None]
    assert losses.style_mixed(z, alpha, order).numpy() == pytest.approx(mixed, abs=1e-5 * scale)
    swapped = content[other] * np.sqrt(var + 1e-5)[:, None] + mu[:, None]
    assert losses.content_swapped(z, order).numpy() == pytest.approx(swapped, abs=1e-5 * scale)


def test_a_step_of_sagnet_is_its_three_moves(data):
    trainer, batch = ready("sagnet", data, w_adv=0.6)
    network = copy.deepcopy(trainer.network)
    style, rate = copy.deepcopy(trainer.method.style), trainer.training.learning_rate
    torch.manual_seed(7)
    total = trainer.method.step(batch, trainer)

    def descend(loss, parameters):
        for parameter, one in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= rate * one
        return float(loss.detach())

    def weighted(each):
        return losses.mean(each, batch.weight)

    torch.manual_seed(7)
    alpha, order = torch.rand(27), torch.randperm(27)
    mixed = losses.style_mixed(network.features(batch.x), alpha, order)
    each = cross_entropy(network.head(mixed), batch.y, reduction="none")
    expected = descend(weighted(each), list(network.parameters()))
    scores = style(losses.content_swapped(network.features(batch.x), torch.randperm(27)))
    each = cross_entropy(scores, batch.y, reduction="none")
    expected += descend(weighted(each), list(style.parameters()))
    scores = style(losses.content_swapped(network.features(batch.x), torch.randperm(27)))
    each = -scores.log_softmax(1).mean(1)
    expected += descend(0.6 * weighted(each), list(network.encoder.parameters()))
    assert total == pytest.approx(expected, rel=1e-5)
    both = zip([*network.parameters(), *style.parameters()], [*trainer.network.parameters(),
               *trainer.method.style.parameters()], strict=True)  # fmt: skip
    assert all(torch.allclose(*pair, atol=1e-6) for pair in both)
