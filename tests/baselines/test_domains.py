"""Methods of domain generalisation: moments, kernels, gradients and mixtures of the domains of a batch."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, make_method
from shiftdata.baselines.methods import coral, fishr, irm, mixup
from shiftdata.baselines.zoo import mmd, rsc
from shiftdata.errors import InputError
from shiftdata.sampling import make_sampler
from tests.baselines.problems import PLAIN, problem, same, trainer_of

NAMES = ("coral", "mmd", "irm", "mixup", "rsc", "fishr")
#: What makes each the same as ERM.
LIMITS = [
    ("coral", "fixed", {"trade_off": 0}),
    ("coral", "paper", {"trade_off": 0}),
    ("mmd", "fixed", {"trade_off": 0}),
    ("irm", "fixed", {"trade_off": 0, "anneal": 0}),
    ("irm", "paper", {"trade_off": 0, "anneal": 0}),
    ("mixup", "fixed", {"alpha": 0}),
    ("rsc", "fixed", {"features_muted": 0}),
    ("rsc", "fixed", {"rows_muted": 0}),
    ("fishr", "fixed", {"trade_off": 0, "anneal": 0}),
    ("fishr", "fixed", {"anneal": 1}),
]


@pytest.fixture(scope="module")
def data():
    return problem()


def sets_of(*sizes, features=4, seed=0):
    """Random rows of some domains."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, features, generator=generator) * (1 + at) + at for at, size in enumerate(sizes)]


def ready(name, data, sizes=(9, 4, 6), variant="fixed", progress=0.9, **hyper):
    """A trainer, and a batch with so many rows of each domain, shuffled."""
    trainer = trainer_of(make_method(name, variant=variant, **hyper), data)
    rows = np.concatenate([np.flatnonzero(data.domain == at)[:size] for at, size in enumerate(sizes)])
    rows = np.random.default_rng(0).permutation(rows)
    y, group, domain = (torch.from_numpy(one[rows]) for one in (data.y, data.group, data.domain))
    x, weight = trainer.inputs(data.rows[rows]), torch.ones(len(rows))
    return trainer, Batch(x, y, group, domain, torch.from_numpy(rows), weight, progress=progress, step=18)


def erm_loss(trainer, batch):
    return cross_entropy(trainer.network(batch.x), batch.y)


def gradients(loss, trainer):
    return torch.autograd.grad(loss, list(trainer.network.parameters()), retain_graph=True)


@pytest.mark.parametrize(("name", "variant", "hyper"), LIMITS)
def test_at_its_limit_it_is_erm_bit_for_bit(data, name, variant, hyper):
    first = trainer_of(make_method(name, variant=variant, **hyper), data)
    second = trainer_of(make_method("erm"), data)
    for one in (first, second):
        one.run()
    assert same(first, second)


@pytest.mark.parametrize("name", NAMES)
def test_away_from_its_limit_it_is_not(data, name):
    first = trainer_of(make_method(name), data)
    second = trainer_of(make_method("erm"), data)
    for one in (first, second):
        one.run()
    assert not same(first, second)


@pytest.mark.parametrize("name", ["coral", "mmd", "irm", "fishr"])
@pytest.mark.parametrize("part", ["encoder", "head"])
def test_the_penalty_has_a_gradient(data, name, part):
    trainer, batch = ready(name, data)
    penalty = trainer.method.loss(batch) - erm_loss(trainer, batch)
    parameters = list(getattr(trainer.network, part).parameters())
    made = torch.autograd.grad(penalty, parameters, allow_unused=True)
    size = sum(float(one.abs().sum()) for one in made if one is not None)
    of_features = name in ("coral", "mmd")  # the head's part of both losses cancels but for rounding
    assert size < 1e-5 if part == "head" and of_features else size > 1e-3


@pytest.mark.parametrize("name", [one for one in NAMES if one != "rsc"])
def test_one_domain_is_a_reason(name):
    with pytest.raises(InputError, match="compares domains"):
        trainer_of(make_method(name), problem(domains=1))


@pytest.mark.parametrize("name", ["coral", "mmd", "irm", "fishr"])
@pytest.mark.parametrize("sizes", [(1, 0, 0), (1, 1, 1), (5, 0, 0), (6, 1, 0), (2, 2, 2), (7, 1, 4)])
def test_batches_of_few_rows_or_domains(data, name, sizes):
    trainer, batch = ready(name, data, sizes)
    loss = trainer.method.loss(batch)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(slope).all() for slope in gradients(loss, trainer))
    # The same code without its penalty: equal bits on every processor, which the loss of ERM's code is not.
    unpenalised, same_batch = ready(name, data, sizes, trade_off=0)
    fitted = unpenalised.method.loss(same_batch)
    assert torch.allclose(fitted, erm_loss(trainer, batch), rtol=1e-5)
    compared = {"coral": 2, "mmd": 2, "irm": 1, "fishr": 2}[name]
    usable = sum(size > (name in ("irm", "fishr")) for size in sizes)
    assert torch.equal(loss, fitted) == (usable < compared)


@pytest.mark.parametrize("name", NAMES)
def test_every_batch_has_as_many_rows_of_each_domain(data, name, monkeypatch):
    assert make_method(name).sampler == "per-domain"
    planned = make_sampler("per-domain", nuisances=data.domain, batch_size=30, seed=1)
    trainer = trainer_of(make_method(name), replace(data, sampler=planned), batch=32, steps=12)
    counts, loss = [], trainer.method.loss

    def counted(batch):
        counts.append(torch.bincount(batch.domain).tolist())
        return loss(batch)

    monkeypatch.setattr(trainer.method, "loss", counted)
    trainer.run()
    assert counts == [[10, 10, 10]] * 12


# CORAL.


@pytest.mark.parametrize("sizes", [(5, 5), (7, 3, 4), (2, 9, 3, 6)])
def test_coral_is_its_formula(sizes):
    sets = sets_of(*sizes)
    rows = [one.numpy().astype(float) for one in sets]
    pairs = list(combinations(rows, 2))
    means = np.mean([(a.mean(0) - b.mean(0)) ** 2 for a, b in pairs])
    covariances = [(np.cov(a.T), np.cov(b.T)) for a, b in pairs]
    spread = np.mean([(a - b) ** 2 for a, b in covariances])
    assert float(coral.coral(sets)) == pytest.approx(means + spread, rel=1e-5)
    paper = np.mean([np.linalg.norm(a - b) ** 2 / (4 * 4**2) for a, b in covariances])
    assert float(coral.coral(sets, means=False)) == pytest.approx(paper, rel=1e-5)
    assert paper == pytest.approx(spread / 4)


def test_coral_of_equal_domains_and_of_single_rows():
    (one,) = sets_of(6)
    assert float(coral.coral([one, one.flip(0)])) == pytest.approx(0, abs=1e-10)
    moved = coral.coral([one, one + 3])
    assert float(moved) == pytest.approx(9, rel=1e-5)
    assert float(coral.coral([one, one + 3], means=False)) == pytest.approx(0, abs=1e-10)
    assert float(coral.coral([one, one[:1]])) == pytest.approx(float((one.mean(0) - one[0]).square().mean()))
    assert float(coral.coral([one])) == 0


@pytest.mark.parametrize("name", ["coral", "mmd"])
def test_moments_are_added_to_the_loss(data, name):
    trainer, batch = ready(name, data, trade_off=3.0)
    z = trainer.network.features(batch.x)
    sets = [z[batch.domain == at] for at in range(3)]
    penalty = coral.coral(sets) if name == "coral" else mmd.mmd(sets)
    assert torch.allclose(trainer.method.loss(batch), erm_loss(trainer, batch) + 3 * penalty)
    trainer, batch = ready("coral", data, variant="paper", trade_off=3.0)
    expected = erm_loss(trainer, batch) + 3 * coral.coral(sets, means=False)
    assert torch.allclose(trainer.method.loss(batch), expected)


def test_moments_under_mixed_precision_are_exact():
    sets = [one * 10 for one in sets_of(6, 5)]
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(coral.coral(sets), coral.coral(sets))
        made = coral.coral(sets), mmd.mmd([one / 30 for one in sets])
    assert torch.equal(made[0], coral.coral(sets))
    assert torch.equal(made[1], mmd.mmd([one / 30 for one in sets]))


# MMD.


def test_mmd_of_equal_sets_and_of_far_points():
    one, other = sets_of(6, 5)
    assert float(mmd.mmd([one, one.flip(0)])) == pytest.approx(0, abs=1e-5)
    assert float(mmd.mmd([torch.zeros(1, 3), torch.full((1, 3), 1e3)])) == pytest.approx(14)
    assert float(mmd.mmd([one])) == 0
    assert float(mmd.mmd([one, other])) == pytest.approx(float(mmd.mmd([other, one])))
    assert float(mmd.mmd([one, other])) == pytest.approx(float(mmd.mmd([one + 5, other + 5])), rel=1e-4)


def test_mmd_is_its_formula():
    sets = sets_of(5, 2, 4)

    def kernel(a, b):
        distances = ((a[:, None] - b[None]) ** 2).sum(-1)
        return np.mean(sum(np.exp(-gamma * distances) for gamma in 10.0 ** np.arange(-3, 4)))

    rows = [one.numpy().astype(float) for one in sets]
    expected = np.mean([kernel(a, a) + kernel(b, b) - 2 * kernel(a, b) for a, b in combinations(rows, 2)])
    assert float(mmd.mmd(sets)) == pytest.approx(expected, rel=1e-5)
    asked = [one.double().requires_grad_() for one in sets]
    moved = torch.autograd.grad(mmd.mmd(asked), asked)
    assert all(torch.isfinite(one).all() and one.abs().sum() > 0 for one in moved)


# IRM.


def test_irm_is_the_derivative_by_a_scale():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(11, 4, generator=generator)
    y = torch.randint(4, (11,), generator=generator)
    scale = torch.ones((), requires_grad=True)
    each = [
        torch.autograd.grad(cross_entropy(scores[at : at + 1] * scale, y[at : at + 1]), scale)[0]
        for at in range(11)
    ]
    assert torch.allclose(irm.scale_gradients(scores, y), torch.stack(each), atol=1e-6)

    domains = [torch.tensor([0, 3, 5, 7, 10]), torch.tensor([1, 2]), torch.tensor([4])]

    def derivative(rows):
        return torch.autograd.grad(cross_entropy(scores[rows] * scale, y[rows]), scale)[0]

    halves = [derivative(rows[::2]) * derivative(rows[1::2]) for rows in domains[:2]]
    assert torch.allclose(irm.irm(torch.stack(each), domains), torch.stack(halves).mean(), atol=1e-6)
    whole = [derivative(rows) ** 2 for rows in domains]
    made = irm.irm(torch.stack(each), domains, halves=False)
    assert torch.allclose(made, torch.stack(whole).mean(), atol=1e-6)
    with pytest.raises(InputError, match="one number a row"):
        irm.irm(torch.ones(11, 1), domains)


def test_irm_has_the_gradient_of_a_second_backward_pass():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(6, 4, generator=generator, requires_grad=True)
    y = torch.randint(4, (6,), generator=generator)
    scale = torch.ones((), requires_grad=True)
    halves = [
        torch.autograd.grad(cross_entropy(scores[at::2] * scale, y[at::2]), scale, create_graph=True)[0]
        for at in range(2)
    ]
    (expected,) = torch.autograd.grad(halves[0] * halves[1], scores)
    (made,) = torch.autograd.grad(irm.irm(irm.scale_gradients(scores, y), [torch.arange(6)]), scores)
    assert torch.allclose(made, expected, atol=1e-6)


def test_irm_may_be_negative_and_is_unbiased():
    assert float(irm.irm(torch.tensor([1.0, -2.0]), [torch.arange(2)])) == -2
    assert float(irm.irm(torch.tensor([1.0, -2.0]), [torch.arange(2)], halves=False)) == 0.25
    draws = torch.randn(4000, 8, generator=torch.Generator().manual_seed(0)) + 0.5
    made = torch.stack([irm.irm(one, [torch.arange(8)]) for one in draws])
    assert float(made.mean()) == pytest.approx(0.25, abs=0.03)  # the square has 0.25 + 1 / 8


def test_irm_weighs_one_before_the_anneal(data):
    for progress, weight in ((0.05, 1), (0.1, 50), (0.5, 50)):
        trainer, batch = ready("irm", data, trade_off=50, progress=progress)
        scores = trainer.network(batch.x)
        domains = [torch.nonzero(batch.domain == at)[:, 0] for at in range(3)]
        penalty = irm.irm(irm.scale_gradients(scores, batch.y), domains)
        expected = cross_entropy(scores, batch.y) + weight * penalty
        assert torch.allclose(trainer.method.loss(batch), expected)
        made = trainer_of(make_method("irm", variant="paper", trade_off=50), data).method.loss(batch)
        square = irm.irm(irm.scale_gradients(scores, batch.y), domains, halves=False)
        assert torch.allclose(made, cross_entropy(scores, batch.y) + weight * square)


# The anneal.


@pytest.mark.parametrize("name", ["irm", "fishr"])
@pytest.mark.parametrize(("anneal", "at"), [(0.0, None), (0.3, 6), (0.31, 7), (0.05, 1), (1.0, None)])
def test_the_optimiser_restarts_once_where_the_weight_changes(data, name, anneal, at, monkeypatch):
    trainer = trainer_of(make_method(name, anneal=anneal), data)
    restarts = []
    restart = trainer.restart_optimizer
    monkeypatch.setattr(
        trainer, "restart_optimizer", lambda: (restarts.append(trainer.progress.done), restart())
    )
    trainer.run()
    assert restarts == ([] if at is None else [at])


def test_a_restart_forgets_moments_and_keeps_the_rate(data):
    trainer = trainer_of(make_method("erm"), data)
    trainer.run(until=5)
    rate = trainer.optimizer.param_groups[0]["lr"]
    assert trainer.optimizer.state_dict()["state"]
    trainer.restart_optimizer()
    assert not trainer.optimizer.state_dict()["state"]
    assert trainer.optimizer.param_groups[0]["lr"] == rate
    trainer.run(until=6)
    assert {int(one["step"]) for one in trainer.optimizer.state.values()} == {1}
    assert trainer.optimizer.param_groups[0]["lr"] != rate


@pytest.mark.parametrize("name", ["irm", "fishr"])
@pytest.mark.parametrize("stop", [5, 6, 7])
def test_a_stop_beside_the_anneal_changes_no_bit(data, name, stop):
    whole = trainer_of(make_method(name, anneal=0.3), data)
    whole.run()
    first, second = (trainer_of(make_method(name, anneal=0.3), data) for _ in range(2))
    first.run(until=stop)
    kept = io.BytesIO()
    torch.save(first.state_dict(), kept)
    kept.seek(0)
    second.load_state_dict(torch.load(kept, weights_only=True))
    second.run()
    assert same(whole, second)


# Mixup.


def test_partners_are_of_the_next_domain():
    domains = [torch.tensor([0, 4, 5]), torch.tensor([1, 3, 7]), torch.tensor([2, 6, 8])]
    partner = mixup.partners(domains, [2, 0, 1])
    assert sorted(partner.tolist()) == list(range(9))
    for this, following in ((2, 0), (0, 1), (1, 2)):
        assert set(partner[domains[this]].tolist()) == set(domains[following].tolist())
    uneven = [torch.tensor([0, 1, 2, 3, 4]), torch.tensor([5, 6])]
    partner = mixup.partners(uneven, [0, 1])
    assert sorted(np.bincount(partner[:5], minlength=7)[5:].tolist()) == [2, 3]
    assert len(set(partner[5:].tolist())) == 2
    assert mixup.partners([torch.tensor([0])], [0]).tolist() == [0]


def test_partners_are_drawn_anew():
    """All rows in one batch have the same domains at every step: their pairs must not be the same."""
    domains = [torch.arange(3), torch.arange(3, 6)]
    torch.manual_seed(0)
    drawn = torch.stack([mixup.partners(domains, [0, 1]) for _ in range(900)])
    for row, other in ((0, 1), (1, 1), (2, 1), (3, 0), (5, 0)):
        counts = np.bincount(drawn[:, row], minlength=6)[domains[other]]
        assert counts.sum() == 900
        assert counts.min() > 240  # 300 of each, give or take 14


@pytest.mark.parametrize("shape", [(3,), (3, 2, 2)])
def test_rows_of_any_shape_are_mixed(shape):
    x, other = torch.zeros(4, *shape), torch.ones(4, *shape)
    lam = torch.tensor([1.0, 0.75, 0.5, 0.0])
    made = mixup.mixed(x, other, lam)
    assert made.shape == x.shape
    assert torch.equal(made.flatten(1)[:, 0], 1 - lam)
    assert torch.equal(made.flatten(1).std(1, correction=0), torch.zeros(4))


def test_mixup_is_its_formula(data, monkeypatch):
    trainer, batch = ready("mixup", data)
    shares = torch.tensor([0.9, 0.2, 0.5])
    monkeypatch.setattr(trainer.method, "shares", lambda pairs: shares)
    torch.manual_seed(3)
    loss = trainer.method.loss(batch)
    torch.manual_seed(3)
    domains = batch.domains()
    partner = mixup.partners(domains, torch.randperm(3).tolist())
    losses = []
    for at, other in enumerate(partner.tolist()):
        lam = shares[batch.domain[at]]
        scores = trainer.network((lam * batch.x[at] + (1 - lam) * batch.x[other])[None])
        own, others = (cross_entropy(scores, batch.y[[one]]) for one in (at, other))
        losses.append(lam * own + (1 - lam) * others)
    assert torch.allclose(loss, torch.stack(losses).mean())


def test_shares_are_of_a_beta():
    method = make_method("mixup", alpha=0.2)
    torch.manual_seed(0)
    drawn = method.shares(20_000)
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(drawn.var()) == pytest.approx(1 / (4 * 1.4), abs=0.005)  # 1 / (4 (2 a + 1))


def test_mixup_refuses_bytes(data):
    trainer, batch = ready("mixup", data)
    whole = Batch(batch.x.long(), batch.y, batch.group, batch.domain, batch.row, batch.weight)
    with pytest.raises(InputError, match="pixels or numbers"):
        trainer.method.loss(whole)


# RSC.


def test_quantiles_are_numpys():
    values = torch.randn(5, 13, generator=torch.Generator().manual_seed(0))
    for share in (0.0, 0.1, 0.5, 2 / 3, 0.97, 1.0):
        expected = np.quantile(values.numpy(), share, axis=1)
        assert np.allclose(rsc.quantile(values, share), expected, atol=1e-6)


def test_the_top_share_and_ties():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    assert rsc.most(values, 0.4).tolist() == [False, False, False, True, True]
    assert not rsc.most(values, 0.0).any()
    assert rsc.most(values, 0.0, strict=False).tolist() == [False] * 4 + [True]  # DomainBed's slip
    assert not rsc.most(torch.zeros(5), 0.5).any()
    assert rsc.most(torch.zeros(5), 0.5, strict=False).all()


def test_a_linear_head_has_one_mask_a_class(data):
    trainer, batch = ready("rsc", data)
    z = trainer.network.features(batch.x)
    made = rsc.class_gradients(trainer.network.head, z, batch.y)
    assert torch.allclose(made, trainer.network.head.weight[batch.y])
    assert not made.requires_grad
    assert trainer.network.head.weight.grad is None


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_rsc_is_its_formula(data, variant):
    trainer, batch = ready("rsc", data, variant=variant)
    head, z = trainer.network.head, trainer.network.features(batch.x).detach()
    weight = head.weight[batch.y].detach().numpy()
    least = np.percentile(weight, 100 * 2 / 3, axis=1)[:, None]
    keep = torch.from_numpy((weight <= least) if variant == "fixed" else (weight < least)).float()
    rows = torch.arange(len(z))
    before, after = (head(one).softmax(1)[rows, batch.y].detach().numpy() for one in (z, z * keep))
    fall = before - after
    calm = fall <= np.percentile(fall, 100 * 2 / 3)
    if variant == "code":
        calm = fall < np.percentile(fall, 100 * 2 / 3)
    keep[torch.from_numpy(calm)] = 1
    assert torch.allclose(trainer.method.loss(batch), cross_entropy(head(z * keep), batch.y))
    assert 0 < float((keep.amin(1) == 0).float().mean()) < 0.5
    assert torch.equal(trainer.method.mask(z, batch.y), keep == 0)


def test_muted_features_get_no_gradient(data, monkeypatch):
    trainer, batch = ready("rsc", data)
    z = trainer.network.features(batch.x).detach().requires_grad_()
    monkeypatch.setattr(trainer.network, "features", lambda x: z)
    (made,) = torch.autograd.grad(trainer.method.loss(batch), z)
    muted = trainer.method.mask(z, batch.y)
    assert muted.any()
    assert not made[muted].any()
    assert (made[~muted] != 0).float().mean() > 0.9


def test_a_head_that_starts_at_0_learns_all_the_same(data):
    for variant, muted in (("fixed", 0.0), ("code", 1.0)):
        trainer = trainer_of(make_method("rsc", variant=variant), data, backbone="linear", steps=1, **PLAIN)
        z, y = trainer.inputs(data.rows[:9]), torch.from_numpy(data.y[:9])
        assert float(trainer.method.mask(z, y).float().mean()) == muted
        trainer.run()
        assert trainer.network.head.weight.any() == (variant == "fixed")


# Fishr.


def test_variances_are_those_of_single_gradients():
    generator = torch.Generator().manual_seed(2)
    z = torch.randn(9, 5, generator=generator, requires_grad=True)
    y = torch.randint(3, (9,), generator=generator)
    head = torch.nn.Linear(5, 3)
    weights = dict(head.named_parameters())

    def loss(weights, row, label):
        return cross_entropy(torch.func.functional_call(head, weights, (row[None],)), label[None])

    each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(weights, z, y)
    expected = torch.cat([each["weight"], each["bias"][:, :, None]], 2).var(0, correction=0)
    made = fishr.gradient_variance(z, head(z), y)
    assert torch.allclose(made, expected, atol=1e-6)
    assert torch.allclose(fishr.gradient_variance(z, head(z), y, bias=False), made[:, :-1])
    moved = [torch.autograd.grad(one.square().sum(), [z, head.weight]) for one in (made, expected)]
    for pair in zip(*moved, strict=True):
        assert torch.allclose(*pair, atol=1e-6)


def test_fishr_of_equal_domains_is_0():
    v = torch.rand(4, 5)
    assert float(fishr.fishr(v.expand(3, 4, 5))) == pytest.approx(0, abs=1e-12)
    assert float(fishr.fishr(v[None])) == 0
    assert float(fishr.fishr(torch.stack([v, v + 2]))) == pytest.approx(1)


def test_fishr_averages_over_steps(data):
    trainer, batch = ready("fishr", data, gamma=0.9, trade_off=7)
    z, method = trainer.network.features(batch.x), trainer.method
    scores = trainer.network.head(z)
    variances = torch.stack(
        [
            fishr.gradient_variance(z[rows], scores[rows], batch.y[rows])
            for rows in (batch.domain == at for at in range(3))
        ]
    )
    fitted, averages = cross_entropy(scores, batch.y), torch.zeros_like(variances)
    for _ in range(3):
        averages = 0.9 * averages.detach() + 0.1 * variances
        expected = fitted + 7 * fishr.fishr(averages / 0.1)
        loss = method.loss(batch)
        assert torch.allclose(loss, expected, rtol=1e-4)
        for pair in zip(gradients(loss, trainer), gradients(expected, trainer), strict=True):
            assert torch.allclose(*pair, rtol=1e-3, atol=1e-6)
    assert torch.allclose(method.get_buffer("averages"), averages)


def test_fishr_scales_by_the_square_of_its_average(data):
    """At the first step the average, divided by 1 - gamma, is the variance itself; later it grows."""
    trainer, batch = ready("fishr", data, gamma=0.95, trade_off=1)
    fitted = erm_loss(trainer, batch)
    made = [float((trainer.method.loss(batch) - fitted).detach()) for _ in range(150)]
    assert made[-1] / made[0] == pytest.approx(400, rel=0.1)


def test_fishr_takes_averages_before_the_anneal(data):
    trainer, batch = ready("fishr", data, progress=0.1)
    assert torch.allclose(trainer.method.loss(batch), erm_loss(trainer, batch), rtol=1e-6)
    kept = trainer.method.get_buffer("averages")
    assert kept.abs().sum() > 0
    assert not kept.requires_grad
    trainer, batch = ready("fishr", data, sizes=(5, 1, 0))
    trainer.method.loss(batch)
    assert trainer.method.get_buffer("averages").abs().sum((1, 2)).gt(0).tolist() == [True, False, False]


def test_fishr_wants_a_linear_head(data):
    class Deep(torch.nn.Module):
        head = torch.nn.Sequential(torch.nn.Linear(3, 3))

    known = trainer_of(make_method("erm"), data).data.known(3)
    with pytest.raises(InputError, match="linear head"):
        make_method("fishr").setup(Deep(), known)


@pytest.mark.parametrize("sizes", [(5, 5), (4, 7, 1), (2, 2, 2, 6)])
def test_wide_features_have_the_same_penalty_and_gradient(sizes):
    generator = torch.Generator().manual_seed(1)
    first = [torch.randn(size, 60, generator=generator, requires_grad=True) for size in sizes]
    second = [one.detach().clone().requires_grad_() for one in first]
    by_rows = coral.covariance_gap(first)
    by_entries = coral.mean_gap([coral.covariance(one) for one in second if len(one) > 1])
    assert by_rows.item() == pytest.approx(by_entries.item(), rel=1e-4)
    by_rows.backward()
    by_entries.backward()
    for one, other in zip(first, second, strict=True):
        if len(one) > 1:
            assert torch.allclose(one.grad, other.grad, atol=1e-7)
