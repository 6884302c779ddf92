"""Losses of domain generalisation against their formulas, and the methods that add them to ERM's."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import losses, make_method
from shiftdata.baselines.losses import domains
from shiftdata.errors import InputError
from tests.baselines import problems
from tests.baselines.problems import problem, same, trainer_of

PENALISED = ("coral", "mmd", "irm", "vrex", "fishr")


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


#: A trainer, and a batch with that many rows of each domain.
ready = partial(problems.ready, sizes=(9, 4, 6), progress=0.9, step=18)


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


@pytest.mark.parametrize("sizes", [(5, 5), (4, 7, 1), (2, 2, 2, 6)])
def test_coral_of_wide_features_has_the_same_value_and_gradient(sizes):
    """Inner products of rows and sums over entries are two ways to one number."""
    z, domain, _ = mixed_sets(*sizes, features=60)
    z.requires_grad_()
    narrow = [z[domain == number] for number in range(len(sizes)) if sizes[number] > 1]
    spread = torch.stack([torch.cov(rows.T) for rows in narrow]).var(0).mean() / 2
    coral = losses.coral(z, domain, means=False)
    assert coral.item() == pytest.approx(spread.item(), rel=1e-4)
    pair = [torch.autograd.grad(value, z)[0] for value in (coral, spread)]
    assert torch.allclose(*pair, atol=1e-7)


def test_moments_under_mixed_precision_are_exact():
    z, domain, _ = mixed_sets(6, 5)
    exact = losses.coral(10 * z, domain), losses.mmd(z / 3, domain)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = losses.coral(10 * z, domain), losses.mmd(z / 3, domain)
    assert all(map(torch.equal, exact, mixed))


def test_domains_too_small_for_a_formula_are_left_out():
    z, logits, y, domain = random(10, 5), random(10, 3), labels(10, 3), torch.tensor([0, 2] * 4 + [1, 2])
    for part in (slice(0, 1), slice(0, 2)):  # one row, one of each domain
        rows = logits[part], y[part], domain[part]
        assert losses.irm(*rows) == losses.Fishr(3, 5, 4).update(z[part], *rows) == 0
    state, without = losses.Fishr(3, 5, 4), losses.Fishr(3, 5, 4)
    larger = domain != 1
    rows = z, logits, y, domain
    assert state.update(*rows) == without.update(*(column[larger] for column in rows)) > 0
    assert not state.averages[[1, 3]].any()
    assert losses.vrex(random(9), torch.zeros(9, dtype=torch.int64)) == 0


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
    penalties = []
    for progress in (0.29, 0.3, 0.5):
        trainer, batch = ready(name, data, trade_off=50, anneal=0.3, progress=progress)
        fitted = cross_entropy(trainer.network(batch.x), batch.y)
        penalties.append(float((trainer.method.loss(batch) - fitted).detach()))
    assert penalties[0] == pytest.approx(early * penalties[1] / 50, rel=1e-2, abs=1e-6)
    assert penalties[1] == penalties[2] != 0
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


def test_mixup_trains_on_what_it_mixes_and_refuses_bytes(data):
    trainer, batch = ready("mixup", data)
    torch.manual_seed(3)
    loss = trainer.method.loss(batch)
    torch.manual_seed(3)
    x, partner, lam = losses.mixup(batch.x, batch.domain, 0.2)
    assert torch.allclose(loss, losses.mixup_losses(trainer.network(x), batch.y, partner, lam).mean())
    with pytest.raises(InputError, match="pixels or numbers"):
        losses.mixup(batch.x.long(), batch.domain)
