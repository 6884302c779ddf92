"""Losses of domain generalisation against their formulas, and the methods that add them to ERM's."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, losses, make_method
from shiftdata.baselines.losses import domains
from shiftdata.errors import InputError
from tests.baselines.problems import inputs_of, problem, same, trainer_of

PENALISED = ("coral", "mmd", "irm", "vrex", "fishr")


@pytest.fixture(scope="module")
def data():
    return problem()


@pytest.fixture(scope="module")
def erm(data):
    trainer = trainer_of(make_method("erm"), data, steps=8)
    trainer.run()
    return trainer


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels(rows, classes, seed=1):
    return torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(seed))


def mixed_sets(*sizes, features=4, seed=0):
    """Random rows of some domains, in a random order: features, domains, and the rows of each."""
    generator = torch.Generator().manual_seed(seed)
    domain = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    domain = domain[torch.randperm(len(domain), generator=generator)]
    z = torch.randn(len(domain), features, generator=generator) * (1 + domain[:, None]) + domain[:, None]
    return z, domain, [z[domain == number].numpy().astype(float) for number in range(len(sizes))]


def ready(name, data, sizes=(9, 4, 6), variant="fixed", progress=0.9, **hyper):
    """A trainer, and a batch with that many rows of each domain, shuffled."""
    trainer = trainer_of(make_method(name, variant=variant, **hyper), data)
    rows = np.concatenate([np.flatnonzero(data.domain == at)[:size] for at, size in enumerate(sizes)])
    rows = np.random.default_rng(0).permutation(rows)
    y, group, domain = (torch.from_numpy(column[rows]) for column in (data.y, data.group, data.domain))
    x, weight = inputs_of(trainer, data.rows[rows]), torch.ones(len(rows))
    return trainer, Batch(x, y, group, domain, torch.from_numpy(rows), weight, progress=progress, step=18)


def gradients(loss, trainer):
    return torch.autograd.grad(loss, list(trainer.network.parameters()), retain_graph=True)


def test_means_are_weighted_and_of_vectors():
    assert losses.mean(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 1.0])) == 1.75
    assert losses.mean(torch.tensor([1.0, 4.0])) == 2.5
    for wrong in (torch.ones(2, 1), torch.ones(3)):
        with pytest.raises(InputError, match="a row"):
            losses.mean(torch.ones(2), wrong)
    with pytest.raises(InputError, match="one number a row"):
        losses.mean(torch.ones(2, 1))


# CORAL and MMD.


@pytest.mark.parametrize("sizes", [(5, 5), (7, 3, 4), (2, 9, 3, 6)])
def test_coral_is_its_formula(sizes):
    z, domain, sets = mixed_sets(*sizes)
    pairs = list(combinations(sets, 2))
    means = np.mean([(a.mean(0) - b.mean(0)) ** 2 for a, b in pairs])
    covariances = [(np.cov(a.T), np.cov(b.T)) for a, b in pairs]
    spread = np.mean([(a - b) ** 2 for a, b in covariances])
    assert float(losses.coral(z, domain)) == pytest.approx(means + spread, rel=1e-5)
    paper = np.mean([np.linalg.norm(a - b) ** 2 / (4 * 4**2) for a, b in covariances])
    assert float(losses.coral(z, domain, means=False)) == pytest.approx(paper, rel=1e-5)


@pytest.mark.parametrize("sizes", [(5, 5), (4, 7, 1), (2, 2, 2, 6)])
def test_coral_of_wide_features_has_the_same_value_and_gradient(sizes):
    """Inner products of rows and sums over entries are two ways to one number."""
    z, domain, _ = mixed_sets(*sizes, features=60)
    z.requires_grad_()
    narrow = [z[domain == number] for number in range(len(sizes)) if sizes[number] > 1]
    spread = torch.stack([torch.cov(rows.T) for rows in narrow]).var(0).mean() / 2
    made = losses.coral(z, domain, means=False)
    assert made.item() == pytest.approx(spread.item(), rel=1e-4)
    pair = [torch.autograd.grad(value, z)[0] for value in (made, spread)]
    assert torch.allclose(*pair, atol=1e-7)


def test_mmd_is_its_formula():
    z, domain, sets = mixed_sets(5, 2, 4)

    def kernel(a, b):
        return np.mean(
            [[sum(np.exp(-g * ((x - y) ** 2).sum()) for g in domains.GAMMAS) for y in b] for x in a]
        )

    expected = np.mean([kernel(a, a) + kernel(b, b) - 2 * kernel(a, b) for a, b in combinations(sets, 2)])
    assert float(losses.mmd(z, domain)) == pytest.approx(expected, rel=1e-5)
    (moved,) = torch.autograd.grad(losses.mmd(z.requires_grad_(), domain), z)
    assert torch.isfinite(moved).all()
    assert (moved.abs().sum(1) > 0).all()


def test_moments_under_mixed_precision_are_exact():
    z, domain, _ = mixed_sets(6, 5)
    exact = losses.coral(10 * z, domain), losses.mmd(z / 3, domain)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = losses.coral(10 * z, domain), losses.mmd(z / 3, domain)
    assert all(map(torch.equal, exact, mixed))


# IRM, V-REx, SD, EQRM.


@pytest.mark.parametrize("halves", [True, False])
def test_irm_is_the_derivative_by_a_scale(halves):
    """Value and gradient of the double backward pass."""
    logits, y = random(11, 4).requires_grad_(), labels(11, 4)
    domain, scale = torch.tensor([0, 1, 1, 0, 2, 0, 5, 0, 5, 5, 0]), torch.ones((), requires_grad=True)

    def derivative(rows):
        loss = cross_entropy(logits[rows] * scale, y[rows])
        return torch.autograd.grad(loss, scale, create_graph=True)[0]

    each = [torch.nonzero(domain == number)[:, 0] for number in (0, 1, 2, 5)]
    if halves:
        each = [rows for rows in each if len(rows) > 1]
        expected = torch.stack([derivative(rows[::2]) * derivative(rows[1::2]) for rows in each]).mean()
    else:
        expected = torch.stack([derivative(rows) ** 2 for rows in each]).mean()
    made = losses.irm(logits, y, domain, halves=halves)
    assert torch.allclose(made, expected, atol=1e-6)
    pair = [torch.autograd.grad(value, logits)[0] for value in (made, expected)]
    assert torch.allclose(*pair, atol=1e-6)
    assert losses.irm(logits[:2], y[:2], domain[:2]) == 0  # no two halves


def test_vrex_is_the_variance_of_risks():
    each, domain = random(9).abs(), torch.tensor([0, 1, 1, 0, 2, 0, 2, 0, 2])
    weight = torch.linspace(0.5, 1.5, 9)
    for w in (None, weight):
        full = np.ones(9) if w is None else w.numpy()
        rows = [domain.numpy() == number for number in range(3)]
        risks = [np.average(each.numpy()[inside], weights=full[inside]) for inside in rows]
        assert float(losses.vrex(each, domain, w)) == pytest.approx(np.var(risks), rel=1e-5)
    assert losses.vrex(each, torch.zeros(9, dtype=torch.int64)) == 0


def test_sd_is_the_mean_square_of_logits():
    logits, weight = random(5, 3), torch.linspace(0.5, 1.5, 5)
    assert float(losses.sd(logits)) == pytest.approx(float((logits**2).mean()))
    expected = np.average((logits.numpy() ** 2).mean(1), weights=weight.numpy())
    assert float(losses.sd(logits, weight)) == pytest.approx(expected, rel=1e-6)


def quantile_of(risks, share):
    """The quantile of the smoothed risks by bisection in double precision, step by step."""
    h = 1.06 * np.std(risks, ddof=1) * len(risks) ** -0.2

    def smoothed(q):
        return np.mean([0.5 * (1 + math.erf((q - risk) / h / math.sqrt(2))) for risk in risks])

    low, high = min(risks) - 50 * h, max(risks) + 50 * h
    for _ in range(100):
        low, high = (
            ((low + high) / 2, high) if smoothed((low + high) / 2) < share else (low, (low + high) / 2)
        )
    return low


@pytest.mark.parametrize("share", [0.5, 0.75, 0.97])
def test_eqrm_is_a_quantile_and_has_its_gradient(share):
    risks = np.array([0.3, 1.2, 0.8, 0.7])
    domain = torch.tensor([3, 0, 1, 2, 0, 1])
    each = torch.tensor(risks[domain], dtype=torch.float32, requires_grad=True)
    made = losses.eqrm(each, domain, share)
    assert made.item() == pytest.approx(quantile_of(risks, share), rel=1e-5)
    (moved,) = torch.autograd.grad(made, each)
    for number in range(4):
        step = 1e-5 * (np.arange(4) == number)
        slope = (quantile_of(risks + step, share) - quantile_of(risks - step, share)) / 2e-5
        assert float(moved[domain == number].sum()) == pytest.approx(slope, rel=1e-3, abs=1e-4)
    # As released: the value is the same; the ends of the bisection and the deviation have the gradient.
    released = losses.eqrm(each, domain, share, implicit=False)
    assert released.item() == pytest.approx(made.item(), rel=1e-5)
    (moved,) = torch.autograd.grad(released, each)
    h = [1.06 * np.std(risks + 1e-6 * (np.arange(4) == at), ddof=1) * 4**-0.2 for at in (1, 3)]
    by_h = losses.domains.NormalDist().inv_cdf(share) * (np.array(h) - 1.06 * np.std(risks, ddof=1) * 4**-0.2)
    assert float(moved[domain == 3].sum()) == pytest.approx(by_h[1] / 1e-6, abs=0.01)  # not an end
    assert 0 < float(moved[domain == 1].sum()) - by_h[0] / 1e-6 < 1  # the largest risk


# Fishr.


def test_variances_are_those_of_single_gradients():
    z, y, head = random(9, 5).requires_grad_(), labels(9, 3), torch.nn.Linear(5, 3)
    each = []
    for row in range(9):
        loss = cross_entropy(head(z[[row]]), y[[row]])
        by_weight, by_bias = torch.autograd.grad(loss, list(head.parameters()), create_graph=True)
        each.append(torch.cat([by_weight, by_bias[:, None]], 1))
    expected = torch.stack(each).var(0, correction=0)
    made = domains.gradient_variance(z, head(z), y)
    assert torch.allclose(made, expected, atol=1e-6)
    assert torch.allclose(domains.gradient_variance(z, head(z), y, bias=False), made[:, :-1])
    moved = [torch.autograd.grad(value.square().sum(), [z, head.weight]) for value in (made, expected)]
    assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(*moved, strict=True))


def test_fishr_averages_over_steps_and_leaves_single_rows_out():
    z, y, head = random(10, 5), labels(10, 3), torch.nn.Linear(5, 3)
    domain = torch.tensor([0, 2, 0, 2, 0, 2, 2, 1, 0, 2])
    state, averages = losses.Fishr(3, 5, 4, gamma=0.9), torch.zeros(2, 3, 6)
    logits = head(z)
    each = [domains.gradient_variance(z[domain == d], logits[domain == d], y[domain == d]) for d in (0, 2)]
    for _ in range(3):
        averages = 0.9 * averages.detach() + 0.1 * torch.stack(each)
        scaled = averages / 0.1
        expected = (scaled - scaled.mean(0)).square().mean()
        made = state.update(z, logits, y, domain)
        assert torch.allclose(made, expected, rtol=1e-5)
        pair = [torch.autograd.grad(value, head.weight, retain_graph=True)[0] for value in (made, expected)]
        assert torch.allclose(*pair, rtol=1e-4)
    assert torch.allclose(state.averages[[0, 2]], averages)
    assert not state.averages[[1, 3]].any()
    copy = losses.Fishr(3, 5, 4, gamma=0.9)
    copy.load_state_dict(state.state_dict())
    assert torch.equal(copy.update(z, logits, y, domain), state.update(z, logits, y, domain))
    assert losses.Fishr(3, 5, 4).update(z[:1], logits[:1], y[:1], domain[:1]) == 0


# RSC.


def test_the_top_share_and_ties():
    values = random(5, 13)
    for share in (0.1, 0.5, 2 / 3, 0.97):
        least = np.quantile(values.numpy(), 1 - share, axis=1)[:, None]
        assert (domains.top_share(values, share).numpy() == (values.numpy() > least)).all()
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    assert domains.top_share(values, 0.4).tolist() == [False, False, False, True, True]
    assert not domains.top_share(values, 0.0).any()
    assert domains.top_share(values, 0.0, strict=False).tolist() == [False] * 4 + [True]  # DomainBed's slip
    assert not domains.top_share(torch.zeros(5), 0.5).any()
    assert domains.top_share(torch.zeros(5), 0.5, strict=False).all()


@pytest.mark.parametrize("strict", [True, False])
def test_rsc_mutes_what_its_formula_says(strict):
    head, z, y = torch.nn.Linear(7, 3), random(19, 7), labels(19, 3)
    weight = head.weight[y].detach().numpy()
    least = np.percentile(weight, 100 * 2 / 3, axis=1)[:, None]
    muted = torch.from_numpy(weight > least if strict else weight >= least)
    rows = torch.arange(19)
    before, after = (head(x).softmax(1)[rows, y].detach().numpy() for x in (z, z * ~muted))
    falls = before - after
    least = np.percentile(falls, 100 * 2 / 3)
    muted &= torch.from_numpy(falls > least if strict else falls >= least)[:, None]
    made = losses.rsc_mask(head, z, y, strict=strict)
    assert torch.equal(made, muted)
    assert 0 < float(made.any(1).float().mean()) < 0.5
    assert head.weight.grad is None


# The methods.


@pytest.mark.parametrize("name", [name for name in PENALISED if name != "irm"])  # it compares no domains
def test_there_is_no_penalty_of_one_domain(name):
    """A task with one is refused by `train`; rows of your own are fitted as ERM fits them."""
    alone = problem(domains=1)
    hyper = {"anneal": 0.0} if "anneal" in make_method(name).space() else {}
    penalised, plain = (
        trainer_of(make_method(each, **given), alone) for each, given in ((name, hyper), ("erm", {}))
    )
    for trainer in (penalised, plain):
        trainer.run()
    assert same(penalised, plain)


@pytest.mark.parametrize("name", PENALISED)
@pytest.mark.parametrize("variant", ["fixed", "paper"])
def test_the_loss_is_that_of_erm_and_a_penalty(data, name, variant):
    if variant not in make_method(name).variants:
        return
    trainer, batch = ready(name, data, variant=variant, trade_off=3.0)
    z = trainer.network.features(batch.x)
    logits = trainer.network.head(z)
    rows = logits, batch.y, batch.domain
    plain = variant == "fixed"
    penalty = {
        "coral": lambda: losses.coral(z, batch.domain, means=plain),
        "mmd": lambda: losses.mmd(z, batch.domain),
        "irm": lambda: losses.irm(*rows, halves=plain),
        "vrex": lambda: losses.vrex(cross_entropy(*rows[:2], reduction="none"), batch.domain),
        "fishr": lambda: losses.Fishr(3, z.shape[1], 3).update(z, *rows),
    }[name]()
    expected = cross_entropy(logits, batch.y) + 3 * penalty
    loss = trainer.method.loss(batch)
    assert torch.allclose(loss, expected, rtol=1e-5)
    for pair in zip(gradients(loss, trainer), gradients(expected, trainer), strict=True):
        assert torch.allclose(*pair, rtol=1e-3, atol=1e-5)


def test_eqrm_and_sd_are_their_formulas(data):
    trainer, batch = ready("eqrm", data, quantile=0.6)
    each = cross_entropy(trainer.network(batch.x), batch.y, reduction="none")
    assert torch.allclose(trainer.method.loss(batch), losses.eqrm(each, batch.domain, 0.6))
    trainer, batch = ready("eqrm", data, progress=0.2)
    assert torch.allclose(trainer.method.loss(batch), each.mean())
    trainer, batch = ready("sd", data, trade_off=0.7)
    logits = trainer.network(batch.x)
    expected = cross_entropy(logits, batch.y) + 0.7 * (logits**2).mean()
    assert torch.allclose(trainer.method.loss(batch), expected)


@pytest.mark.parametrize(("name", "early"), [("irm", 1), ("vrex", 1), ("fishr", 0)])
def test_the_weight_changes_at_the_anneal(data, name, early):
    made = []
    for progress in (0.29, 0.3, 0.5):
        trainer, batch = ready(name, data, trade_off=50, anneal=0.3, progress=progress)
        fitted = cross_entropy(trainer.network(batch.x), batch.y)
        made.append(float((trainer.method.loss(batch) - fitted).detach()))
    assert made[0] == pytest.approx(early * made[1] / 50, rel=1e-2, abs=1e-6)
    assert made[1] == made[2] != 0
    if name == "fishr":
        trainer, batch = ready(name, data, progress=0.1)
        trainer.method.loss(batch)
        assert trainer.method.fishr.averages.any()  # taken before, too
        assert not trainer.method.fishr.averages.requires_grad


@pytest.mark.parametrize("name", ["irm", "vrex", "eqrm", "fishr"])
@pytest.mark.parametrize(("anneal", "at"), [(0.0, None), (0.3, 6), (0.31, 7), (0.05, 1), (1.0, None)])
def test_the_optimiser_restarts_once_where_the_weight_changes(data, name, anneal, at, monkeypatch):
    if name != "irm" and anneal != 0.31:
        return
    trainer = trainer_of(make_method(name, anneal=anneal), data)
    restarts, restart = [], trainer.restart_optimizer
    monkeypatch.setattr(
        trainer, "restart_optimizer", lambda: (restarts.append(trainer.progress.done), restart())
    )
    trainer.run()
    assert restarts == ([] if at is None else [at])


# Mixup.


def test_partners_are_of_the_next_domain_and_drawn_each_time():
    domain = torch.tensor([0, 1, 2, 1, 0, 0, 2, 1, 2])
    for seed in range(5):
        torch.manual_seed(seed)
        partner = losses.partners(domain)
        assert sorted(partner.tolist()) == list(range(9))
        following = [domain[partner[domain == number]].unique() for number in range(3)]
        assert [len(numbers) for numbers in following] == [1, 1, 1]  # a circle
        assert (domain != domain[partner]).all()
    uneven = torch.tensor([0, 0, 0, 0, 0, 1, 1])
    partner = losses.partners(uneven)
    assert sorted(np.bincount(partner[:5], minlength=7)[5:].tolist()) == [2, 3]
    assert len(set(partner[5:].tolist())) == 2
    assert losses.partners(torch.tensor([7])).tolist() == [0]
    torch.manual_seed(0)
    drawn = torch.stack([losses.partners(torch.arange(2).repeat_interleave(3)) for _ in range(900)])
    for row in (0, 1, 3, 5):
        counts = np.bincount(drawn[:, row], minlength=6)[[3, 4, 5] if row < 3 else [0, 1, 2]]
        assert counts.sum() == 900
        assert counts.min() > 240  # 300 of each, give or take 14


@pytest.mark.parametrize("shape", [(3,), (3, 2, 2)])
def test_mixup_is_its_formula(shape):
    x, y, domain = random(8, *shape), labels(8, 3), torch.tensor([0, 1, 2, 1, 0, 0, 2, 1])
    torch.manual_seed(3)
    mixed, partner, lam = losses.mixup(x, domain, alpha=0.5)
    torch.manual_seed(3)
    assert torch.equal(partner, losses.partners(domain))
    shares = torch.distributions.Beta(0.5, 0.5).sample((3,))
    assert torch.equal(lam, shares[domain])
    head = torch.nn.Linear(int(np.prod(shape)), 3)
    made = losses.mixup_losses(head(mixed.flatten(1)), y, partner, lam)
    for row, other in enumerate(partner.tolist()):
        one = head((lam[row] * x[row] + (1 - lam[row]) * x[other]).flatten()[None])
        own, theirs = (cross_entropy(one, y[[at]]) for at in (row, other))
        assert torch.allclose(made[row], lam[row] * own + (1 - lam[row]) * theirs)
    assert torch.equal(losses.mixup(x, domain, alpha=0)[0], x)


def test_mixup_trains_on_what_it_mixes_and_refuses_bytes(data):
    trainer, batch = ready("mixup", data)
    torch.manual_seed(3)
    loss = trainer.method.loss(batch)
    torch.manual_seed(3)
    x, partner, lam = losses.mixup(batch.x, batch.domain, 0.2)
    assert torch.allclose(loss, losses.mixup_losses(trainer.network(x), batch.y, partner, lam).mean())
    with pytest.raises(InputError, match="pixels or numbers"):
        losses.mixup(batch.x.long(), batch.domain)
