"""Adversarial losses, weights of classes and couplings, and the methods that take them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import cosine_similarity

from shiftdata.baselines import Batch, losses, make_method
from shiftdata.baselines.methods.adversarial import PROJECTED
from shiftdata.errors import InputError
from tests.baselines.problems import inputs_of, problem, trainer_of


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ready(name, data, backbone="mlp", **hyper):
    """A trainer of a method whose dropout is off, and a batch of another size than its target's."""
    quiet = {"dropout": 0.0} if "dropout" in type(make_method(name)).space() else {}
    trainer = trainer_of(make_method(name, **(quiet | hyper)), data, backbone=backbone)
    columns = (torch.from_numpy(column[:30]) for column in (data.y, data.group, data.domain))
    x, target = inputs_of(trainer, data.rows[:30]), inputs_of(trainer, data.target[:20])
    rows = torch.arange(30)
    return trainer, Batch(x, *columns, rows, progress=0.3, target=target, target_row=rows[:20])


def gradients(loss, module):
    return torch.autograd.grad(loss, list(module.parameters()), retain_graph=True, allow_unused=True)


def erm_loss(trainer, batch):
    return losses.cross_entropy(trainer.network(batch.x), batch.y)


# Losses.


def test_the_reversal_changes_the_gradient_alone():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = losses.reverse_gradient(x, 0.25)
    assert torch.equal(x, y)
    (y * torch.tensor([3.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [-0.75, -1.25]
    coefficients = [losses.reversal_schedule(progress) for progress in (0.0, 0.1, 1.0)]
    assert coefficients == pytest.approx([0, math.tanh(0.5), math.tanh(5)])
    assert losses.reversal_schedule(0.7, slope=0) == 0


def test_the_discriminator_s_loss_by_hand():
    source, target = torch.tensor([0.3, -2.0, 1.0]), torch.tensor([0.5, -1.0])
    w, v = torch.tensor([2.0, 0.1, 1.0]), torch.tensor([0.3, 4.0])
    each, each_target = torch.log1p(torch.exp(-source)), torch.log1p(torch.exp(target))
    assert losses.dann(source, target) == pytest.approx(float(each.mean() + each_target.mean()) / 2)
    expected = float((w * each).mean() + (v * each_target).mean())
    assert losses.dann(source, target, w, v) == pytest.approx(expected / 2)
    assert losses.dann(source, target, w, v, "code") == pytest.approx(expected)
    with pytest.raises(InputError, match="one number a row"):
        losses.dann(source[:, None], target)
    with pytest.raises(InputError, match="variant must be"):
        losses.dann(source, target, variant="paper")


def test_a_projection_keeps_inner_products_of_what_cdan_s_discriminator_reads():
    z, p = random(5, 40), random(5, 3).softmax(1)
    wide = losses.cdan_map(z, p, (random(40, 100_000, seed=1), random(3, 100_000, seed=2)))
    inner = losses.cdan_map(z, p) @ losses.cdan_map(z, p).T
    assert torch.allclose(wide @ wide.T, inner, atol=0.05 * float(inner.max()))


def test_an_adversarial_step_goes_up_the_gradient_and_stays_near():
    origin, gradient = torch.zeros(3, 2), torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])
    once = losses.adversarial_step(origin, origin, gradient, 0.3, 0.5)
    assert torch.allclose(once, torch.tensor([[0.18, 0.24], [0.0, 0.0], [0.0, -0.3]]))
    twice = losses.adversarial_step(once, origin, gradient, 0.3, 0.5)
    assert torch.allclose(twice, torch.tensor([[0.3, 0.4], [0.0, 0.0], [0.0, -0.5]]))
    away = losses.adversarial_step(origin + 7, origin + 7, gradient, 0.3, 0.5) - 7
    assert torch.allclose(away, once, atol=1e-5)


# DANN and CDAN.


def test_dann_is_its_formula(data):
    trainer, batch = ready("dann", data, trade_off=0.7)
    method, features = trainer.method, trainer.network.features
    source, target = method.discriminator(features(batch.x)), method.discriminator(features(batch.target))
    domain, fitted = losses.dann(source, target), erm_loss(trainer, batch)
    loss, c = method.loss(batch), math.tanh(1.5)
    assert torch.allclose(loss, fitted + 0.7 * domain)
    of_encoder = (gradients(each, trainer.network.encoder) for each in (loss, fitted, domain))
    for gradient, plain, hidden in zip(*of_encoder, strict=True):
        assert torch.allclose(gradient, plain - 0.7 * c * hidden, atol=1e-6)
    of_discriminator = (gradients(each, method.discriminator) for each in (loss, domain))
    assert all(torch.allclose(a, 0.7 * b, atol=1e-6) for a, b in zip(*of_discriminator, strict=True))


def test_dann_in_smas_form_has_no_warm_up_and_adds_both_terms(data):
    fixed, batch = ready("dann", data)
    code, _ = ready("dann", data, variant="code")
    code.method.load_state_dict(fixed.method.state_dict())
    start, fitted = replace(batch, progress=0.0), erm_loss(fixed, batch)
    assert torch.allclose(code.method.loss(start) - fitted, 2 * (fixed.method.loss(start) - fitted))
    plain = gradients(fitted, fixed.network.encoder)[0]
    assert torch.allclose(gradients(fixed.method.loss(start), fixed.network.encoder)[0], plain, atol=1e-7)
    assert not torch.allclose(gradients(code.method.loss(start), code.network.encoder)[0], plain, atol=1e-4)


def test_cdan_is_its_formula(data):
    trainer, batch = ready("cdan", data)
    network, method = trainer.network, trainer.method
    with torch.no_grad():
        logits, logits_target = network(batch.x), network(batch.target)
        judged = [
            method.discriminator(losses.cdan_map(network.features(x), f.softmax(1)))
            for x, f in ((batch.x, logits), (batch.target, logits_target))
        ]
        domain = losses.dann(*judged)
        assert torch.allclose(method.loss(batch), erm_loss(trainer, batch) + domain)


@pytest.mark.parametrize(("variant", "reaches"), [("fixed", False), ("code", True)])
def test_cdans_gradient_does_not_reach_the_head_but_in_smas_form(data, variant, reaches):
    trainer, batch = ready("cdan", data, variant=variant)
    extra = trainer.method.loss(batch) - erm_loss(trainer, batch)
    head, encoder = (gradients(extra, part) for part in (trainer.network.head, trainer.network.encoder))
    assert (head[0].abs().max() > 1e-5) == reaches
    assert encoder[0].abs().max() > 1e-5


def test_wide_products_are_projected(data):
    trainer, batch = ready("cdan", problem(numbers=1500, rows=60), "linear")
    method = trainer.method
    assert method.discriminator[0].in_features == PROJECTED
    assert {"of_z", "of_p"} <= method.state_dict().keys()
    logits = trainer.network(batch.x)
    expected = losses.cdan_map(batch.x, logits.softmax(1), (method.of_z, method.of_p))
    assert torch.allclose(method.read(batch.x, logits), expected)
    narrow, _ = ready("cdan", data)
    assert narrow.method.discriminator[0].in_features == 3 * 128


# Weights of classes.


def test_weights_in_cases_with_known_answers():
    confusion = torch.tensor([[0.4, 0.05, 0.0], [0.1, 0.2, 0.05], [0.0, 0.05, 0.15]]).double()
    true = torch.tensor([0.2, 2.0, 1.5]).double()
    true /= confusion.sum(0) @ true
    assert torch.allclose(losses.class_weights(confusion, confusion @ true), true, atol=1e-5)
    # A classifier that knows nothing yet.
    even = losses.class_weights(torch.full((3, 3), 1 / 9), torch.full((3,), 1 / 3))
    assert even.tolist() == pytest.approx([1, 1, 1])
    # A class without a row of the source; another without one in the target.
    absent = losses.class_weights(torch.diag(torch.tensor([0.5, 0.5, 0.0])), torch.tensor([1.0, 0, 0]))
    assert absent.tolist() == pytest.approx([2, 0, 1], abs=1e-6)


def test_weights_of_classes_follow_what_is_counted():
    weights, expected = losses.ClassWeights(3, momentum=0.75), torch.ones(3)
    logits, logits_target, y = random(12, 3), random(8, 3, seed=1), torch.arange(12) % 3
    for _ in range(2):
        for _ in range(2):
            weights.update(logits, y, logits_target)
        counted = torch.zeros(3, 3)
        for row in range(12):
            counted[:, y[row]] += 2 * logits[row].softmax(0)
        observed = 2 * logits_target.softmax(1).sum(0)
        assert torch.allclose(weights.confusion, counted, atol=1e-5)
        assert torch.allclose(weights.observed, observed, atol=1e-5)
        weights.renew()
        new = losses.class_weights(counted / counted.sum(), observed / observed.sum())
        expected = 0.75 * expected + 0.25 * new
        assert torch.allclose(weights.weights, expected, atol=1e-4)
        assert weights(y).tolist() == weights.weights[y].tolist()
        assert weights.confusion.sum() == weights.observed.sum() == 0
    weights.update(logits * torch.nan, y, logits_target)
    weights.renew()
    assert torch.allclose(weights.weights, expected, atol=1e-4)  # the loss says what is wrong


@pytest.mark.parametrize("variant", ["fixed", "paper", "code"])
def test_each_row_has_the_weight_of_its_class(data, variant):
    trainer, batch = ready("iw-dann", data, variant=variant)
    method, w = trainer.method, torch.tensor([0.2, 1.0, 2.5])
    method.weights.weights.copy_(w)
    z, z_target = trainer.network.features(batch.x), trainer.network.features(batch.target)
    each = losses.cross_entropies(trainer.network.head(z), batch.y)
    domain = bce(method.discriminator(z), torch.ones(30), reduction="none")
    of_target = bce(method.discriminator(z_target), torch.zeros(20))
    weight = w[batch.y].mean() * torch.ones(30) if variant == "code" else w[batch.y]
    fitted = (each if variant == "paper" else weight * each).mean()
    expected = fitted + ((weight * domain).mean() + of_target) / 2
    assert torch.allclose(method.loss(batch), expected)


# Couplings.


def test_couplings_are_the_cheapest():
    cost = torch.from_numpy(np.random.default_rng(0).random((5, 5)))
    cheapest = min(float(cost[range(5), order].sum()) for order in permutations(range(5)))
    plan = losses.exact_transport(cost)
    assert (plan * cost).sum() == pytest.approx(cheapest / 5)
    assert plan.sum(0).tolist() == plan.sum(1).tolist() == pytest.approx([0.2] * 5)
    cost = torch.from_numpy(np.random.default_rng(1).random((4, 6)))
    plan = losses.exact_transport(cost)
    assert plan.sum(1).tolist() == pytest.approx([1 / 4] * 4)
    assert plan.sum(0).tolist() == pytest.approx([1 / 6] * 6)
    copied = cost.numpy().repeat(3, 0).repeat(2, 1)  # 12 rows, 12 columns of equal mass
    assert (plan * cost).sum() == pytest.approx(copied[linear_sum_assignment(copied)].sum() / 12)
    assert losses.jdot(cost) == pytest.approx(float((plan * cost).sum()))
    assert losses.exact_transport(torch.tensor([[torch.inf, 1.0]])).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("variant", ["fixed", "paper", "code"])
def test_the_cost_of_a_pair_by_hand(variant):
    y, z, z_target, f = torch.tensor([0, 2, 1, 0]), random(4, 5), random(3, 5, seed=1), random(3, 3, seed=2)
    p, cost = f.softmax(1), losses.jdot_cost(y, z, z_target, f, 0.3, 2.0, variant)
    for i in range(4):
        for j in range(3):
            apart = float((z[i] - z_target[j]).square().sum())
            labels = {
                "fixed": float((torch.eye(3)[y[i]] - p[j]).square().sum()),
                "paper": -math.log(p[j, y[i]]),
                "code": float(p[j, y[i]]),
            }
            far = float(cosine_similarity(z[i], z_target[j], 0)) if variant == "code" else apart
            assert float(cost[i, j]) == pytest.approx(0.3 * far + 2 * labels[variant], rel=1e-5)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_deepjdot_is_its_formula(data, variant):
    trainer, batch = ready("deepjdot", data, "mlp-bn", variant=variant)
    trainer.method.train()
    before = {name: value.clone() for name, value in trainer.network.state_dict().items()}
    plan = trainer.method.plan(batch)
    assert all(torch.equal(before[name], value) for name, value in trainer.network.state_dict().items())
    assert trainer.network.encoder[1].training
    trainer.method.eval()
    a, b, source = (0.56, 0.19, 4.88) if variant == "code" else (0.01, 1.0, 1.0)
    z, z_target = trainer.network.features(batch.x), trainer.network.features(batch.target)
    inputs = (batch.y, z, z_target, trainer.network.head(z_target), a, b)
    assert torch.equal(plan, losses.exact_transport(losses.jdot_cost(*inputs, variant)))
    cost = losses.jdot_cost(*inputs, "code" if variant == "code" else "paper")
    expected = source * erm_loss(trainer, batch) + (plan * cost).sum()
    assert torch.allclose(trainer.method.loss(batch), expected)
    # The target's rows get labels.
    assert gradients(expected - source * erm_loss(trainer, batch), trainer.network.head)[0].abs().max() > 1e-6


# Pseudo-labels.


def test_only_confident_rows_have_a_loss_and_it_is_shared_by_all():
    p = torch.tensor([[0.95, 0.03, 0.02], [0.4, 0.5, 0.1], [0.01, 0.04, 0.95], [0.3, 0.3, 0.4]])
    logits = p.log().requires_grad_()
    loss = losses.pseudo_label(logits, 0.9)
    assert loss.item() == pytest.approx(-math.log(0.95) / 2)
    loss.backward()
    expected = torch.where(
        torch.tensor([[True], [False], [True], [False]]), p - torch.eye(3)[[0, 0, 2, 0]], 0.0
    )
    assert torch.allclose(logits.grad, expected / 4, atol=1e-6)
    even = losses.pseudo_label(torch.zeros(1, 2), 0.5)  # at the threshold: confident
    assert even.item() == pytest.approx(math.log(2))
    none = losses.pseudo_label(logits, 1.1)
    assert none.item() == torch.autograd.grad(none, logits)[0].abs().max() == 0


def test_pseudo_labels_are_its_formula_and_rise(data):
    trainer, batch = ready("pseudo-label", data, tau=0.36, trade_off=3.0)
    extra = losses.pseudo_label(trainer.network(batch.target), 0.36)
    assert extra > 0
    for progress, risen in ((0.0, 0), (0.1, 0.25), (0.4, 1), (0.9, 1)):
        expected = erm_loss(trainer, batch) + 3 * risen * extra
        assert torch.allclose(trainer.method.loss(replace(batch, progress=progress)), expected)
