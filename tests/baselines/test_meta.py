"""MLDG and SagNet: several passes or moves a step, and what each of them reads and moves."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, losses, make_method
from shiftdata.baselines.losses.domains import domain_pairs
from shiftdata.errors import InputError
from tests.baselines.problems import PLAIN, inputs_of, picture_problem, problem, same, trainer_of


@pytest.fixture(scope="module")
def data():
    return problem()


@pytest.mark.parametrize("name", ["mldg", "sagnet"])
def test_batches_have_as_many_rows_of_each_domain(name):
    assert make_method(name).sampler == "per-domain"


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


def moved(trainer, act):
    """What an action changes, by name: the method's parameters and buffers."""
    before = {name: one.clone() for name, one in trainer.method.state_dict().items()}
    act()
    after = trainer.method.state_dict()
    return {name for name, one in before.items() if not torch.equal(one, after[name])}


def parts(names):
    return {".".join(one.split(".")[: 1 + one.startswith("network")]) for one in names}


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


def test_without_an_inner_step_the_gradients_are_added(data):
    """1 + beta times that of the mean of the domains' losses; the value is that of both passes."""
    trainer, batch = ready("mldg", data)
    rows = batch.x, batch.y, batch.domain
    loss = losses.mldg(trainer.network, *rows, 0.0, 0.7, batch.weight)
    each = [domain_loss(trainer.network, batch, part) for part in losses.rows_of_each(batch.domain).values()]
    expected = 1.7 * torch.stack(each).mean()
    assert torch.allclose(loss, expected)
    for pair in zip(gradients(loss, trainer.network), gradients(expected, trainer.network), strict=True):
        assert torch.allclose(*pair, atol=1e-6)
    assert losses.mldg(trainer.network, *(part[:3] for part in rows[:2]), torch.zeros(3).long(), 0.1) == 0


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


@pytest.mark.parametrize("sizes", [(8, 0, 0), (0, 1, 0), (1, 1, 0), (1, 4, 1)])
def test_mldg_in_batches_of_few_rows(data, sizes):
    trainer, batch = ready("mldg", data, sizes)
    other, _ = ready("erm", data, sizes)
    trainer.method.step(batch, trainer)
    other.method.step(batch, other)
    assert same(trainer, other) == (np.count_nonzero(sizes) == 1)
    assert all(torch.isfinite(one).all() for one in trainer.network.parameters())


def test_mldg_without_its_weight_is_erm_bit_for_bit(data):
    first, second = (
        trainer_of(make_method(name, **hyper), data, backbone="mlp-bn", steps=6)
        for name, hyper in (("mldg", {"beta": 0}), ("erm", {}))
    )
    for one in (first, second):
        one.run()
    assert same(first, second)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_two_domains_train_nothing_as_released(variant):
    trainer = trainer_of(make_method("mldg", variant=variant), problem(domains=2), steps=5)
    assert bool(moved(trainer, trainer.run)) == (variant == "fixed")
    one = trainer_of(make_method("mldg", variant=variant, meta_test=1), problem(domains=2), steps=5)
    assert moved(one, one.run)


def test_more_domains_to_test_on_than_there_are_is_erm(data):
    trainer, batch = ready("mldg", data, (9, 9, 0), meta_test=2)
    other, _ = ready("erm", data)
    for one in (trainer, other):
        one.method.step(batch, one)
    assert same(trainer, other)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_which_passes_move_the_running_statistics(data, variant):
    """Those at the network's own weights, one a domain; as released none: both are the copy's."""
    trainer, batch = ready("mldg", data, variant=variant, backbone="mlp-bn")
    norm = trainer.network.encoder[1]
    trainer.network.train()
    with torch.no_grad():
        read = [
            trainer.network.encoder[0](batch.x[rows]) for rows in losses.rows_of_each(batch.domain).values()
        ]
    torch.manual_seed(5)
    order = torch.randperm(3).tolist()
    expected = torch.zeros_like(norm.running_mean)
    for at in order if variant == "fixed" else []:
        expected = 0.9 * expected + 0.1 * read[at].mean(0)
    torch.manual_seed(5)
    trainer.method.step(batch, trainer)
    assert torch.allclose(norm.running_mean, expected, atol=1e-6)
    assert int(norm.num_batches_tracked) == (3 if variant == "fixed" else 0)


def test_parameters_that_are_frozen_stay(data):
    trainer, batch = ready("mldg", data)
    trainer.network.head.bias.requires_grad_(False)
    assert "network.head.bias" not in moved(trainer, lambda: trainer.method.step(batch, trainer))


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


def test_swapped_content_carries_no_gradient():
    z, order = z_of().requires_grad_(), torch.tensor([1, 2, 3, 4, 5, 6, 0])
    made = losses.content_swapped(z, order)
    (found,) = torch.autograd.grad(made[2, 0], z)
    assert found[2].abs().sum() > 0  # by the style of its own row
    assert not found[[0, 1, 3, 4, 5, 6]].any()


def test_the_adversary_is_least_where_all_classes_are_alike():
    uniform = cross_entropy(torch.randn(6, 4), torch.full((6, 4), 0.25), reduction="none")
    assert uniform.shape == (6,)
    scores = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    expected = cross_entropy(scores, torch.full((6, 4), 0.25), reduction="none")
    assert torch.allclose(losses.uniform_cross_entropies(scores), expected, atol=1e-6)
    assert (losses.uniform_cross_entropies(scores) > np.log(4)).all()
    assert torch.allclose(losses.uniform_cross_entropies(torch.ones(3, 4)), torch.full((3,), np.log(4)))


@pytest.mark.parametrize("settings", [PLAIN, {}])  # {}: AdamW, with moments and decay
def test_what_each_move_of_sagnet_moves(data, settings):
    trainer, batch = ready("sagnet", data, settings=settings, backbone="mlp-bn")
    method = trainer.method
    for _ in range(3):  # so that all have moments
        method.step(batch, trainer)
    trainer.network.eval()  # no running statistics: parameters alone
    for loss, wanted in (
        (method.loss, {"network.encoder", "network.head"}),
        (method.style_loss, {"style"}),
        (method.adversarial_loss, {"network.encoder"}),
    ):
        changed = moved(trainer, lambda loss=loss: trainer.descend(loss(batch)))
        assert parts(changed) == wanted
    trainer.network.train()


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


def test_one_row_has_no_other_style(data):
    trainer, batch = ready("sagnet", data, (1, 0, 0))
    other, _ = ready("erm", data)
    assert torch.allclose(trainer.method.loss(batch), other.method.loss(batch), atol=1e-6)
    trainer.method.step(batch, trainer)
    assert all(torch.isfinite(one).all() for one in trainer.method.parameters())


def test_sagnet_needs_two_features():
    encoder = torch.nn.Linear(6, 1)
    with pytest.raises(InputError, match="give 2 or more"):
        trainer_of(make_method("sagnet"), problem(), backbone=encoder)


def test_sagnet_moves_the_running_statistics_three_times(data):
    trainer, batch = ready("sagnet", data, backbone="mlp-bn")
    trainer.network.train()
    trainer.method.step(batch, trainer)
    assert int(trainer.network.encoder[1].num_batches_tracked) == 3
    trainer.network.eval()
    with torch.no_grad():
        assert torch.equal(trainer.method.predict(batch.x), trainer.network(batch.x))  # nothing is mixed


def test_each_move_under_mixed_precision_reads_the_weights_as_they_are(data):
    """The casts of weights that autocast keeps are those before the first move."""
    trainer, batch = ready("sagnet", data, settings=PLAIN | {"learning_rate": 0.5})
    with torch.autocast("cpu", torch.bfloat16):
        trainer.descend(trainer.method.loss(batch))
        second = trainer.network(batch.x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(second, trainer.network(batch.x))


@pytest.mark.parametrize("name", ["mldg", "sagnet"])
def test_pictures_and_frozen_statistics(name):
    data = picture_problem(rows=40)
    trainer = trainer_of(make_method(name), data, backbone="small-cnn", steps=2, batch=12, frozen_norm=True)
    changed = moved(trainer, trainer.run)
    assert changed
    assert not {one for one in changed if "running" in one or "tracked" in one}
