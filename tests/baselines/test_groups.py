"""Methods for groups: weights that grow with losses, errors of a first model, balanced last layers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, Source, losses, make_method
from shiftdata.baselines.losses import groups as dfr
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import make_sampler
from tests.baselines.problems import inputs_of, problem, trainer_of


def batch_of(trainer, rows):
    """Some rows to fit as a batch."""
    data = trainer.data
    columns = {name: torch.from_numpy(getattr(data, name)[rows]) for name in ("y", "group", "domain")}
    return Batch(inputs_of(trainer, data.rows[rows]), row=torch.from_numpy(rows), **columns)


def test_group_means_are_means_of_groups():
    each, group = torch.tensor([1.0, 3.0, 5.0, 8.0]), torch.tensor([0, 0, 2, 3])
    means, present = losses.group_means(each, group, 4)
    assert means.tolist() == [2, 0, 5, 8]
    assert present.tolist() == [True, False, True, True]
    assert not losses.group_means(each[:0], group[:0], 2)[0].any()
    with pytest.raises(InputError, match="one number a row"):
        losses.group_means(each[:, None], group, 4)


def random_losses():
    generator = torch.Generator().manual_seed(0)
    each = 2 * torch.rand(40, generator=generator)
    return each.requires_grad_(), torch.randint(4, (40,), generator=generator)


@pytest.mark.parametrize("absent_grow", [False, True])
def test_group_dro_is_its_formula(absent_grow):
    """By loops in double precision; group 4 is never in a batch, group 2 in some."""
    each, group = random_losses()
    bonus, eta = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]), 0.3
    state, q = losses.GroupDRO(5, eta, bonus, absent_grow=absent_grow), np.full(5, 0.2)
    for step in range(4):
        rows = np.arange(40) if step % 2 else np.flatnonzero(group.numpy() != 2)
        loss = state.update(each[rows], group[rows])
        means = {}
        for number in np.unique(group[rows]):
            inside = rows[group[rows].numpy() == number]
            means[number] = each.detach()[inside].double().mean().item()
        grows = range(5) if absent_grow else means
        for number in grows:
            q[number] *= np.exp(eta * (means.get(number, 0) + bonus[number].item()))
        q /= q.sum()
        assert loss.item() == pytest.approx(sum(q[number] * mean for number, mean in means.items()), rel=1e-5)
        assert state.log_q.exp().numpy() == pytest.approx(q, rel=1e-4)
    # The weights are those after the update, and constants for the gradient.
    (moved,) = torch.autograd.grad(loss, each)
    expected = q[group] / np.bincount(group)[group]
    assert moved.numpy() == pytest.approx(expected, rel=1e-4)


def test_large_losses_do_not_overflow():
    state, group = losses.GroupDRO(2, eta=1), torch.tensor([0, 1])
    for _ in range(50):
        state.update(torch.tensor([100.0, 101.0]), group)
    assert torch.allclose(state.log_q, torch.tensor([-50.0, 0.0]))


@pytest.mark.parametrize(
    ("name", "variant"), [("group-dro", "fixed"), ("group-dro", "code"), ("group-dro-domains", "fixed")]
)
def test_the_method_takes_groups_or_domains(name, variant, data):
    adjustment = 4 if variant == "code" else 0
    trainer = trainer_of(make_method(name, variant=variant, eta=0.5, adjustment=adjustment), data)
    batch = batch_of(trainer, np.arange(120))
    cells, every = (batch.domain, data.domain) if "domains" in name else (batch.group, data.group)
    counts = torch.from_numpy(np.bincount(every))
    each = cross_entropy(trainer.network(batch.x), batch.y, reduction="none")
    state = losses.GroupDRO(len(counts), 0.5, adjustment / counts.sqrt(), absent_grow=variant == "code")
    assert torch.allclose(trainer.method.loss(batch), state.update(each, cells))
    assert torch.equal(trainer.method.dro.log_q, state.log_q)
    assert trainer.method.dro.absent_grow == (variant == "code")
    assert trainer.method.sampler == {"fixed": "rwg", "code": "shuffle"}[variant] or "domains" in name
    assert make_method("group-dro", variant="code").eta == 0.01


def spurious(rows=400, rare=0.1, seed=0):
    """Two classes: one number that is true, three louder ones that a share `rare` of the rows contradicts."""
    plain = problem(rows=rows, numbers=4, classes=2, domains=2, target=rows // 2, seed=seed)
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=2 * rows)
    select = np.arange(len(y)) >= 1.5 * rows
    against = generator.random(len(y)) < np.where(select, 0.3, rare)
    x = 0.3 * generator.normal(size=(len(y), 4))
    x[:, 0] += 2 * y - 1
    x[:, 1:] += 4 * (2 * (y ^ against) - 1)[:, None]
    fit, select = np.flatnonzero(~select)[:rows], np.flatnonzero(select)
    domain = (y ^ against).astype(np.int64)
    return replace(
        plain,
        source=Source(x.astype(np.float32)),
        rows=fit,
        y=y[fit],
        group=2 * y[fit] + domain[fit],
        domain=domain[fit],
        select=select,
        select_y=y[select],
        select_group=2 * y[select] + domain[select],
        sampler=make_sampler("shuffle", labels=y[fit]),
    )


def test_jtt_marks_the_minority_groups_and_copies_them():
    data = spurious()
    trainer = trainer_of(make_method("jtt", first=0.1, up=5), data, backbone="linear", steps=100)
    trainer.run()
    minority = data.y != data.domain
    assert (trainer.method.wrong.numpy() == minority).all()
    assert trainer.method.report() == {"error_set": minority.sum()}
    assert (trainer.counts == np.where(minority, 5, 1)).all()
    assert trainer.counts.sum() == len(minority) + 4 * minority.sum()
    assert len(trainer.sampler.rows_of(0)) == trainer.counts.sum()


def test_jtt_variants():
    assert losses.jtt_weights(torch.tensor([True, False]), 3).tolist() == [3, 1]
    totals = {
        variant: make_method("jtt", variant=variant, up=4).total_copies
        for variant in ("fixed", "paper", "code")
    }
    assert totals == {"fixed": 4, "paper": 5, "code": 4}
    shares = [stage.share for stage in make_method("jtt", variant="code", first=0.25).stages()]
    assert shares == [0.25, 0, 0.75]
    with pytest.raises(InputError, match="whole copies"):
        trainer_of(make_method("jtt", up=0), problem())


def validation(data, trainer):
    """Features, labels and groups of the validation set, as `losses.dfr` takes them."""
    return (
        torch.from_numpy(trainer.features(data.select)),
        torch.from_numpy(data.select_y),
        torch.from_numpy(data.select_group),
    )


@pytest.mark.parametrize("released", [False, True])
def test_dfr_is_a_mean_of_sparse_regressions_in_the_features_own_units(released):
    generator = np.random.default_rng(0)
    group = np.repeat([0, 1, 2, 3], [30, 12, 20, 9])
    y, z = group // 2, generator.normal(size=(71, 5)) * [1, 2, 3, 1, 1] + np.eye(5)[group % 2 + group // 2]
    train = generator.normal(size=(90, 5)) + 2
    z, train = z.astype(np.float32).astype(float), train.astype(np.float32).astype(float)
    scale = train if released else z
    heads = []
    for number in range(3):
        rows = dfr.balanced(group, dfr.rng(7, "baselines", "dfr", number))
        assert np.bincount(group[rows]).tolist() == [9, 9, 9, 9]
        scaled = (z[rows] - scale.mean(0)) / scale.std(0)
        heads.append(dfr.sparse_regression(scaled, y[rows], 0.05, 3, number, released))
    head = np.mean(heads, 0)
    scores = (z - scale.mean(0)) / scale.std(0) @ head[:, :-1].T + head[:, -1]
    given = torch.from_numpy(z.astype(np.float32)), torch.from_numpy(y), torch.from_numpy(group)
    scale_by = torch.from_numpy(train.astype(np.float32)) if released else None
    weight, bias, c = losses.dfr(*given, 3, c=0.05, fits=3, seed=7, scale_by=scale_by)
    assert np.allclose(given[0] @ weight.T + bias, scores, atol=1e-3)
    assert c == 0.05
    assert weight.dtype == torch.float32
    assert (np.abs(head[:2, :-1]) < 1e-9).any()  # it is sparse
    for wrong in (torch.full_like(given[0], torch.nan), given[0] * torch.inf):
        with pytest.raises(InputError, match="not finite"):
            losses.dfr(wrong, *given[1:], 3)


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_the_head_of_dfr_is_refitted_on_validation(variant, data):
    trainer = trainer_of(make_method("dfr", variant=variant, c=0.3, fits=2), data, steps=4)
    trainer.run()
    scale_by = torch.from_numpy(trainer.features(data.rows)) if variant == "code" else None
    given = validation(data, trainer)
    weight, bias, _ = losses.dfr(*given, 3, c=0.3, fits=2, seed=0, scale_by=scale_by)
    assert np.allclose(trainer.scores(data.select), given[0] @ weight.T + bias, atol=1e-4)
    assert math.isclose(trainer.method.report()["c"], 0.3)
    assert trainer.method.trains_on_select
    assert make_method("rw+dfr").trains_on_select
    assert not make_method("erm").trains_on_select


@pytest.mark.parametrize("classes", [2, 3])
def test_dfr_fits_what_scikit_learn_fits(classes):
    """`code` is the authors' liblinear, bias and all; the default has its weights with a free bias."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    multiclass = pytest.importorskip("sklearn.multiclass")
    generator = np.random.default_rng(0)
    z = generator.normal(size=(120, 3))
    y = np.digitize(z[:, 0] + 0.5 * generator.normal(size=120), [0.8, 1.5][: classes - 1])
    settings = {"C": 0.5, "l1_ratio": 1.0, "solver": "liblinear", "tol": 1e-8, "max_iter": 1000}
    oracle = multiclass.OneVsRestClassifier(linear_model.LogisticRegression(**settings)).fit(z, y)
    head = dfr.sparse_regression(z, y, 0.5, classes + 1, 0, released=True)
    expected = np.array([[*model.coef_[0], *model.intercept_] for model in oracle.estimators_])
    if classes == 2:
        assert np.allclose(head[1] - head[0], expected[0], atol=5e-3)
    else:
        assert np.allclose(head[:classes], expected, atol=5e-3)
    assert head[classes].tolist() == [0, 0, 0, dfr.NEVER]  # a class without rows
    assert (z @ head[:, :-1].T + head[:, -1]).argmax(1).max() < classes

    free = dfr.sparse_regression(z, y, 0.5, classes, 0)
    scores = z @ free[:, :-1].T + free[:, -1]
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    # Where the bias is free its derivative is 0: each class is predicted as often as it occurs.
    assert np.allclose(p.sum(0), np.bincount(y), atol=0.3)
    if classes == 2:
        settings["intercept_scaling"] = 100  # a penalty of a hundredth is nearly none
        oracle = linear_model.LogisticRegression(**settings).fit(z, y)
        assert np.allclose((free[1] - free[0])[:-1], oracle.coef_[0], atol=0.02)
        assert abs((free[1] - free[0])[-1] - expected[0, -1]) > 0.1


@pytest.mark.parametrize("variant", ["fixed", "code"])
@pytest.mark.parametrize("apart", [0.8, 6.0])
def test_dfr_chooses_c_by_the_worst_group_and_the_smaller_of_equals(variant, apart):
    """Again, without a line of `_choose_c`: halves, balance, scale, worst group, mean group, smallest C."""
    generator = np.random.default_rng(3)
    group = np.repeat([0, 1, 2, 3], [40, 25, 14, 9])
    y = group // 2
    z = generator.normal(size=(len(y), 4)) * [1, 1, 5, 1] + np.outer(y, [apart, 0, 0, 0])
    z[:, 1] += 2 * (group % 2)
    draws = dfr.rng(0, "baselines", "dfr", "choice")
    fitted = np.sort(
        np.concatenate(
            [draws.permutation(np.flatnonzero(group == g))[:size] for g, size in enumerate([20, 13, 7, 5])]
        )
    )
    judged = np.setdiff1d(np.arange(len(y)), fitted)
    rows = fitted[
        np.concatenate([draws.permutation(np.flatnonzero(group[fitted] == g))[:5] for g in range(4)])
    ]
    rows = np.sort(rows)
    base = z[rows] if variant == "code" else z
    scaled = (z - base.mean(0)) / base.std(0)
    quality = {}
    for c in dfr.GRID:
        head = dfr.sparse_regression(scaled[rows], y[rows], c, 2, 0, released=variant == "code")
        right = (scaled @ head[:, :-1].T + head[:, -1]).argmax(1) == y
        each = [right[judged][group[judged] == g].mean() for g in range(4)]
        quality[c] = (min(each), np.mean(each))
    best = [c for c in dfr.GRID if quality[c] == max(quality.values())]
    assert len(best) > 1  # several are equally good
    assert dfr._choose_c(z, y, group, 2, 0, variant == "code") == best[0]
