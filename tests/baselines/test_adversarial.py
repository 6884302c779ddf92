"""Methods that learn from unlabelled rows while they train: reversals, couplings, weights, pseudo-labels."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment, minimize
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, DivergedError, make_method
from shiftdata.baselines.methods import cdan, dann
from shiftdata.baselines.zoo import deepjdot, importance, pseudo_label
from shiftdata.errors import InputError
from tests.baselines.problems import PLAIN, problem, same, trainer_of

ADVERSARIAL = ("dann", "cdan", "iw-dann", "iw-cdan")


@pytest.fixture(scope="module")
def data():
    return problem()


def ready(name, data, backbone="mlp", **hyper):
    """A trainer of a method whose dropout is off, and a batch of uneven weights and sizes."""
    quiet = {"dropout": 0.0} if "dropout" in type(make_method(name)).space() else {}
    trainer = trainer_of(make_method(name, **(quiet | hyper)), data, backbone=backbone)
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(30, generator=generator) + 0.5
    rows = torch.arange(30)
    batch = Batch(
        trainer.inputs(data.rows[:30]),
        torch.from_numpy(data.y[:30]),
        torch.from_numpy(data.group[:30]),
        torch.from_numpy(data.domain[:30]),
        rows,
        weight / weight.mean(),
        progress=0.3,
        target=trainer.inputs(data.target[:20]),
        target_row=rows[:20],
    )
    return trainer, batch


def gradients(loss, module):
    return torch.autograd.grad(loss, list(module.parameters()), retain_graph=True, allow_unused=True)


def erm_loss(trainer, batch):
    losses = cross_entropy(trainer.network(batch.x), batch.y, reduction="none")
    return (losses * batch.weight).sum() / batch.weight.sum()


def test_the_reversal_changes_the_gradient_alone():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = dann.reversed_gradient(x, 0.25)
    assert torch.equal(x, y)
    (y * torch.tensor([3.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [-0.75, -1.25]
    assert dann.warm_up(0.0) == 0
    assert dann.warm_up(0.1) == pytest.approx(math.tanh(0.5))
    assert dann.warm_up(1.0) == pytest.approx(0.9999, abs=1e-4)
    assert dann.warm_up(0.7, slope=0) == 0


def test_losses_of_the_discriminator_are_one_a_row():
    scores = torch.tensor([0.3, -2.0])
    assert torch.allclose(dann.domain_losses(scores, True), torch.log1p(torch.exp(-scores)))
    assert torch.allclose(dann.domain_losses(scores, False), torch.log1p(torch.exp(scores)))
    with pytest.raises(InputError, match="one number a row"):
        dann.domain_losses(scores[:, None], True)


@pytest.mark.parametrize("joint", [0, 1])
def test_dann_is_its_formula(data, joint):
    trainer, batch = ready("dann", data, trade_off=0.7, joint=joint)
    method, features = trainer.method, trainer.network.features
    source, target = method.discriminator(features(batch.x)), method.discriminator(features(batch.target))
    on_source = bce(source, torch.ones(30), reduction="none")
    domain = (on_source * batch.weight).mean() + bce(target, torch.zeros(20))
    fitted = erm_loss(trainer, batch)
    loss = method.loss(batch)
    assert torch.allclose(loss, fitted + 0.7 * domain / 2)
    c = math.tanh(1.5)
    for got, plain, seen in zip(
        *(gradients(one, trainer.network.encoder) for one in (loss, fitted, domain)), strict=True
    ):
        assert torch.allclose(got, plain - 0.35 * c * seen, atol=1e-6)
    for got, seen in zip(*(gradients(one, method.discriminator) for one in (loss, domain)), strict=True):
        assert torch.allclose(got, 0.35 * seen, atol=1e-6)
        assert got.abs().max() > 0


def test_dann_in_smas_form_has_no_warm_up_and_adds_both_terms(data):
    fixed, batch = ready("dann", data)
    code, _ = ready("dann", data, variant="code")
    code.method.load_state_dict(fixed.method.state_dict())
    start = replace(batch, progress=0.0)
    fitted = erm_loss(fixed, batch)
    assert torch.allclose(code.method.loss(start) - fitted, 2 * (fixed.method.loss(start) - fitted))
    plain = gradients(fitted, fixed.network.encoder)[0]
    assert torch.allclose(gradients(fixed.method.loss(start), fixed.network.encoder)[0], plain, atol=1e-7)
    assert not torch.allclose(gradients(code.method.loss(start), code.network.encoder)[0], plain, atol=1e-4)


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_without_reversal_the_network_is_that_of_erm(data, name):
    hyper = {"momentum": 1} if name.startswith("iw") else {}  # weights stay 1
    silent = trainer_of(make_method(name, slope=0, joint=0, **hyper), data, **PLAIN)
    erm = trainer_of(make_method("erm"), data, **PLAIN)
    silent.run()
    erm.run()
    assert same(silent, erm)


def test_one_pass_shares_statistics_and_two_do_not(data):
    for joint, passes in ((1, 1), (0, 2)):
        trainer, batch = ready("dann", data, "mlp-bn", joint=joint)
        trainer.method.train()
        trainer.method.loss(batch)
        assert trainer.network.encoder[1].num_batches_tracked == passes


def test_cdan_on_equal_predictions_is_dann_on_features_divided_by_classes(data):
    of_cdan, batch = ready("cdan", data)
    of_dann, _ = ready("dann", data)
    of_dann.network.load_state_dict(of_cdan.network.state_dict())
    for one in (of_cdan, of_dann):
        torch.nn.init.zeros_(one.network.head.weight)
        torch.nn.init.zeros_(one.network.head.bias)
    state = of_cdan.method.discriminator.state_dict()
    blocks = state["0.weight"].view(256, 3, -1)
    state["0.weight"] = blocks.sum(1) / 3
    of_dann.method.discriminator.load_state_dict(state)
    losses = [one.method.loss(batch) for one in (of_cdan, of_dann)]
    assert torch.allclose(*losses)
    pairs = zip(
        *(gradients(loss, one.network) for loss, one in zip(losses, (of_cdan, of_dann), strict=True)),
        strict=True,
    )
    assert all(torch.allclose(*pair, atol=1e-6) for pair in pairs)


def test_what_cdans_discriminator_reads():
    z, p = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.25, 0.75]])
    assert cdan.outer(z, p).tolist() == [[0.25, 0.5, 0.75, 0.75, 1.5, 2.25]]
    torch.manual_seed(0)
    z, p = torch.randn(5, 40), torch.rand(5, 3).softmax(1)
    wide = cdan.projected(z, p, torch.randn(40, 200_000), torch.randn(3, 200_000))
    inner = cdan.outer(z, p) @ cdan.outer(z, p).T
    assert torch.allclose(wide @ wide.T, inner, atol=0.05 * float(inner.max()))


def test_cdans_gradient_does_not_reach_the_head_but_in_smas_form(data):
    for variant, reaches in (("fixed", False), ("code", True)):
        trainer, batch = ready("cdan", data, variant=variant)
        extra = trainer.method.loss(batch) - erm_loss(trainer, batch)
        head, encoder = (gradients(extra, one) for one in (trainer.network.head, trainer.network.encoder))
        assert (head[0].abs().max() > 1e-5) == reaches
        assert encoder[0].abs().max() > 1e-5


def test_wide_products_are_projected(data):
    wide = problem(numbers=1500, rows=60)
    trainer, batch = ready("cdan", wide, "linear")
    assert trainer.method.discriminator[0].in_features == cdan.PROJECTED
    assert trainer.method.of_z.shape == (1500, cdan.PROJECTED)
    assert {"of_z", "of_p"} <= trainer.method.state_dict().keys()
    p = trainer.network(batch.x).softmax(1)
    expected = (batch.x @ trainer.method.of_z) * (p @ trainer.method.of_p) / 32
    assert torch.allclose(trainer.method.read(batch.x, trainer.network(batch.x)), expected)
    narrow, _ = ready("cdan", data)
    assert narrow.method.discriminator[0].in_features == 3 * 128


def test_entropy_weighs_rows_of_the_discriminator(data):
    scores = torch.tensor([[0.0, 0, 0, 0], [200, 0, 0, 0]], requires_grad=True)
    weight = cdan.certainties(scores)
    assert weight.tolist() == pytest.approx([1.25 / 1.625, 2 / 1.625])
    assert not weight.requires_grad
    trainer, batch = ready("cdan", data, entropy=1)
    network, method = trainer.network, trainer.method
    with torch.no_grad():
        source, target = network(batch.x), network(batch.target)
        weight = cdan.certainties(torch.cat([source, target]))
        judged = [
            method.discriminator(cdan.outer(network.features(x), f.softmax(1)))
            for x, f in ((batch.x, source), (batch.target, target))
        ]
        on_source = bce(judged[0], torch.ones(30), reduction="none") * weight[:30] * batch.weight
        on_target = bce(judged[1], torch.zeros(20), reduction="none") * weight[30:]
        expected = erm_loss(trainer, batch) + (on_source.mean() + on_target.mean()) / 2
        assert torch.allclose(method.loss(batch), expected)


# Weights of classes.


def test_weights_are_those_of_another_solver():
    generator = np.random.default_rng(0)
    for _ in range(5):
        confusion = generator.dirichlet(np.ones(16)).reshape(4, 4)
        observed = generator.dirichlet(np.ones(4))
        prior = confusion.sum(0)
        made = importance.class_weights(confusion, observed)

        def cost(w, confusion=confusion, observed=observed):
            return 1e3 * np.square(confusion @ w - observed).sum()

        other = minimize(
            cost,
            np.ones(4),
            bounds=[(0, None)] * 4,
            constraints={"type": "eq", "fun": lambda w, prior=prior: w @ prior - 1},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert made.min() >= 0
        assert made @ prior == pytest.approx(1)
        assert made == pytest.approx(other.x, abs=2e-3)
        assert cost(made) <= other.fun + 1e-6


def test_weights_in_cases_with_known_answers():
    confusion = np.array([[0.4, 0.05, 0.0], [0.1, 0.2, 0.05], [0.0, 0.05, 0.15]])
    true = np.array([0.2, 2.0, 1.5])
    true /= confusion.sum(0) @ true
    assert importance.class_weights(confusion, confusion @ true) == pytest.approx(true, abs=1e-5)
    # A classifier that knows nothing yet.
    assert importance.class_weights(np.full((3, 3), 1 / 9), np.full(3, 1 / 3)) == pytest.approx(np.ones(3))
    # A class without a row of the source; another without one in the target.
    absent = np.array([[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0]])
    assert importance.class_weights(absent, np.array([1.0, 0, 0])) == pytest.approx([2, 0, 1], abs=1e-6)


@pytest.mark.parametrize("kind", ["dann", "cdan"])
def test_weights_of_1_change_no_bit(data, kind):
    weighted = trainer_of(make_method(f"iw-{kind}", momentum=1), data)
    plain = trainer_of(make_method(kind), data)
    weighted.run()
    plain.run()
    assert same(weighted, plain)
    assert weighted.method.weights.tolist() == [1, 1, 1]


@pytest.mark.parametrize("variant", ["fixed", "paper", "code"])
def test_each_row_has_the_weight_of_its_class(data, variant):
    trainer, batch = ready("iw-dann", data, variant=variant)
    method = trainer.method
    method.weights.copy_(torch.tensor([0.2, 1.0, 2.5]))
    z, z_target = trainer.network.features(batch.x), trainer.network.features(batch.target)
    losses = cross_entropy(trainer.network.head(z), batch.y, reduction="none")
    domain = bce(method.discriminator(z), torch.ones(30), reduction="none")
    of_target = bce(method.discriminator(z_target), torch.zeros(20))
    w = torch.tensor([0.2, 1.0, 2.5])[batch.y]

    def mean(one):
        return (one * batch.weight).mean()

    expected = {
        "fixed": mean(w * losses) + (mean(w * domain) + of_target) / 2,
        "paper": mean(losses) + (mean(w * domain) + of_target) / 2,
        "code": w.mean() * mean(losses) + (w.mean() * mean(domain) + of_target) / 2,
    }
    assert torch.allclose(method.loss(batch), expected[variant])
    assert len({round(float(one.detach()), 5) for one in expected.values()}) == 3


def test_rows_count_by_their_weight_in_the_joint_of_prediction_and_label(data):
    trainer, batch = ready("iw-dann", data)
    generator = np.random.default_rng(0)
    scores, scores_target = (torch.from_numpy(generator.normal(size=(size, 3))).float() for size in (30, 20))
    for _ in range(2):
        trainer.method._count(batch, scores, scores_target)
    p, p_target = (torch.softmax(one, 1).numpy() for one in (scores, scores_target))
    expected = np.zeros((3, 3))
    for row, (label, weight) in enumerate(zip(batch.y.tolist(), batch.weight.tolist(), strict=True)):
        expected[:, label] += 2 * weight * p[row]
    assert np.allclose(trainer.method.confusion.numpy(), expected, atol=1e-4)
    assert np.allclose(trainer.method.observed.numpy(), 2 * p_target.sum(axis=0), atol=1e-4)


def test_weights_are_renewed_once_an_epoch_with_a_moving_average(data):
    trainer = trainer_of(make_method("iw-dann", momentum=0.75), data, steps=24)  # 240 rows, 30 a batch
    method, kept = trainer.method, []
    renew = method._renew
    sums = []

    def watched():
        sums.append((method.confusion.clone(), method.observed.clone(), method.seen.tolist()))
        renew()
        kept.append(method.weights.clone())

    method._renew = watched
    trainer.run()
    assert [seen for _, _, seen in sums] == [[240, 240]] * 3
    before = torch.ones(3)
    for (confusion, observed, _), after in zip(sums, kept, strict=True):
        assert confusion.sum(0).round().tolist() == np.bincount(data.y).tolist()
        new = importance.class_weights((confusion / 240).double().numpy(), (observed / 240).double().numpy())
        expected = 0.75 * before + 0.25 * torch.from_numpy(new).float()
        assert torch.allclose(after, expected, atol=1e-3)
        before = after
    assert method.confusion.sum() == method.observed.sum() == method.seen.sum() == 0


def test_weights_point_to_the_shares_of_the_target():
    data = problem(rows=600, target=300, shift=0.0)
    x = data.inputs.x
    x[np.arange(len(x)), :3] *= 3  # the classes are far apart
    labels = x[:, :3].argmax(1)
    keep = data.target[(labels[data.target] == 0) | (np.arange(300) % 4 == 0)]
    data = replace(data, target=keep)
    trainer = trainer_of(make_method("iw-dann", trade_off=0.1), data, steps=200)
    trainer.run()
    truth = np.bincount(labels[keep], minlength=3) / len(keep) / (np.bincount(data.y) / 600)
    assert truth[0] > 1.5
    assert trainer.method.weights.tolist() == pytest.approx(truth, abs=0.35)


# Couplings.


def test_couplings_are_the_cheapest():
    generator = np.random.default_rng(0)
    cost = generator.random((5, 5))
    cheapest = min(cost[np.arange(5), list(order)].sum() for order in permutations(range(5)))
    plan = deepjdot.coupling(cost)
    assert (plan * cost).sum() == pytest.approx(cheapest / 5)
    assert plan.sum(0) == pytest.approx(np.full(5, 0.2))
    cost = generator.random((4, 6))
    plan = deepjdot.coupling(cost)
    assert plan.sum(1) == pytest.approx(np.full(4, 1 / 4))
    assert plan.sum(0) == pytest.approx(np.full(6, 1 / 6))
    copied = cost.repeat(3, 0).repeat(2, 1)  # 12 rows, 12 columns of equal mass
    assert (plan * cost).sum() == pytest.approx(copied[linear_sum_assignment(copied)].sum() / 12)
    assert deepjdot.coupling(np.array([[3.0]])).tolist() == [[1.0]]


def test_a_permuted_source_couples_with_itself(data):
    trainer, batch = ready("deepjdot", data, label=0.1)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    batch = replace(batch, target=batch.x[order])
    plan = trainer.method.plan(batch)
    assert torch.equal(plan, (order[None] == torch.arange(30)[:, None]).float() / 30)
    z = trainer.network.features(batch.x)
    assert (deepjdot.distances(z, z[order]) * plan).sum() == 0
    wrong, _ = ready("deepjdot", data, variant="code")
    assert (wrong.method.plan(batch) * plan).sum() == 0  # the least alike
    with torch.no_grad():
        scores = trainer.network.head(z)
        losses = deepjdot.label_losses(batch.y, scores)
    assert losses.diagonal().tolist() == pytest.approx(
        cross_entropy(scores, batch.y, reduction="none").tolist()
    )


@pytest.mark.parametrize("variant", ["fixed", "paper", "code"])
def test_deepjdot_is_its_formula(data, variant):
    trainer, batch = ready("deepjdot", data, variant=variant)
    batch = replace(batch, x=batch.x[:9], y=batch.y[:9], weight=batch.weight[:9], target=batch.target[:9])
    a, b, source = (0.56, 0.19, 4.88) if variant == "code" else (0.01, 1.0, 1.0)
    with torch.no_grad():
        trainer.network.head.weight.mul_(30)  # sure and wrong: cross-entropy and squares couple otherwise
        z, other = trainer.network.features(batch.x), trainer.network.features(batch.target)
        p = trainer.network(batch.target).softmax(1)
    solved, trained = np.zeros((9, 9)), np.zeros((9, 9))
    for i in range(9):
        for j in range(9):
            apart = float((z[i] - other[j]).square().sum())
            likely = float(p[j, batch.y[i]])
            truth = torch.eye(3)[batch.y[i]]
            if variant == "code":
                trained[i, j] = a * float(torch.cosine_similarity(z[i], other[j], 0)) + b * likely
            else:
                trained[i, j] = a * apart - b * math.log(likely)
            squares = a * apart + b * float((truth - p[j]).square().sum())
            solved[i, j] = squares if variant == "fixed" else trained[i, j]
    cheapest = [linear_sum_assignment(one)[1].tolist() for one in (solved, trained)]
    assert (cheapest[0] == cheapest[1]) == (variant != "fixed")
    best = cheapest[0]
    expected = source * erm_loss(trainer, batch) + trained[np.arange(9), best].mean()
    assert float(trainer.method.loss(batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    extra = trainer.method.loss(batch) - source * erm_loss(trainer, batch)
    assert gradients(extra, trainer.network.encoder)[0].abs().max() > 1e-6
    assert gradients(extra, trainer.network.head)[0].abs().max() > 1e-6  # the target's rows get labels


def test_the_plan_is_made_in_eval_mode_and_moves_no_statistic(data):
    trainer, batch = ready("deepjdot", data, "mlp-bn")
    trainer.method.train()
    before = {name: one.clone() for name, one in trainer.network.state_dict().items()}
    plan = trainer.method.plan(batch)
    assert not plan.requires_grad
    assert trainer.method.training
    assert trainer.network.encoder[1].training
    assert all(torch.equal(before[name], one) for name, one in trainer.network.state_dict().items())
    trainer.method.eval()
    assert torch.equal(trainer.method.plan(batch), plan)


@pytest.mark.parametrize("variant", ["fixed", "paper"])
def test_the_plan_is_the_cheapest_by_distances_of_features_and_labels(data, variant):
    trainer, batch = ready("deepjdot", data, variant=variant, distance=0.05, label=2.0)
    trainer.method.eval()
    with torch.no_grad():
        z, z_target = (trainer.network.features(one).double().numpy() for one in (batch.x, batch.unlabelled))
        scores = trainer.network.head(trainer.network.features(batch.unlabelled)).double()
    far = ((z[:, None] - z_target) ** 2).sum(axis=2)
    p, y = torch.softmax(scores, 1).numpy(), batch.y.numpy()
    apart = ((np.eye(3)[y][:, None] - p) ** 2).sum(axis=2) if variant == "fixed" else -np.log(p).T[y]
    cost = 0.05 * far + 2 * apart
    equal = np.repeat(np.repeat(cost, 2, axis=0), 3, axis=1)  # 30 and 20 rows, each in equal parts: 60 and 60
    assert equal.shape == (60, 60)
    best = equal[linear_sum_assignment(equal)].sum() / 60
    assert (trainer.method.plan(batch).numpy() * cost).sum() == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("name", [*ADVERSARIAL, "deepjdot", "pseudo-label"])
def test_a_loss_that_is_no_number_is_a_reason(data, name):
    trainer = trainer_of(make_method(name), data, steps=3)
    with torch.no_grad():
        trainer.network.encoder[0].weight.fill_(torch.nan)
    with pytest.raises(DivergedError, match="lower learning_rate"):
        trainer.run()


# Pseudo-labels.


def test_only_confident_rows_have_a_loss_and_it_is_shared_by_all():
    p = torch.tensor([[0.95, 0.03, 0.02], [0.4, 0.5, 0.1], [0.01, 0.04, 0.95], [0.3, 0.3, 0.4]])
    scores = p.log().requires_grad_()
    losses = pseudo_label.pseudo_label_losses(scores, 0.9)
    assert losses.tolist() == pytest.approx([-math.log(0.95), 0, -math.log(0.95), 0], abs=1e-6)
    losses.mean().backward()
    truth = torch.eye(3)[[0, 0, 2, 0]]
    expected = torch.where(torch.tensor([[True], [False], [True], [False]]), p - truth, 0.0) / 4
    assert torch.allclose(scores.grad, expected, atol=1e-6)
    even = pseudo_label.pseudo_label_losses(torch.zeros(1, 2), 0.5)  # at the threshold: confident
    assert even.tolist() == pytest.approx([math.log(2)])
    none = pseudo_label.pseudo_label_losses(scores, 1.1)
    assert none.tolist() == [0, 0, 0, 0]
    (gradient,) = torch.autograd.grad(none.mean(), scores)
    assert gradient.abs().max() == 0


def test_pseudo_labels_are_its_formula_and_rise(data):
    trainer, batch = ready("pseudo-label", data, tau=0.36, trade_off=3.0)
    p = trainer.network(batch.target).softmax(1).max(1).values
    confident = p >= 0.36
    assert 0 < confident.sum() < 20
    extra = -p[confident].log().sum() / 20
    for progress, risen in ((0.0, 0), (0.1, 0.25), (0.4, 1), (0.9, 1)):
        expected = erm_loss(trainer, batch) + 3 * risen * extra
        assert torch.allclose(trainer.method.loss(replace(batch, progress=progress)), expected)


def test_where_nothing_is_confident_it_is_erm_bit_for_bit(data):
    never = trainer_of(make_method("pseudo-label", tau=1.1), data)
    sometimes = trainer_of(make_method("pseudo-label", tau=0.5), data)
    erm = trainer_of(make_method("erm"), data)
    for one in (never, sometimes, erm):
        one.run()
    assert same(never, erm)
    assert not same(sometimes, erm)
