"""Methods for groups: weights that grow with losses, errors of a first model, balanced last layers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftdata.baselines import Batch, Inputs, make_method
from shiftdata.baselines.estimators import fit_estimator
from shiftdata.baselines.methods import dfr
from shiftdata.baselines.methods.group_dro import group_means, raised
from shiftdata.baselines.methods.jtt import ErrorSetWarning, copies
from shiftdata.errors import InputError
from shiftdata.sampling import cells_of, make_sampler
from shiftdata.sampling.subsets import Subsampled
from tests.baselines.problems import PLAIN, problem, same, trainer_of, weights_of


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


def spurious(rows=400, rare=0.1, seed=0):
    """Two classes: one number that is true, three louder ones that a share `rare` of the rows contradicts."""
    made = problem(rows=rows, numbers=4, classes=2, domains=2, target=rows // 2, seed=seed)
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
        made,
        inputs=Inputs(x.astype(np.float32), np.arange(len(y))),
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


def test_jtt_without_copies_is_erm_trained_again(data):
    twice, once = (trainer_of(make_method(*one), data) for one in (("erm",), ("erm",)))
    once.run()
    twice = trainer_of(make_method("jtt", up=1), data)
    twice.run()
    assert twice.progress.total == 23
    assert same(once, twice)
    copied = trainer_of(make_method("jtt", up=2), data)
    copied.run()
    assert not same(once, copied)


def test_jtt_variants():
    assert copies(np.array([True, False]), 3).tolist() == [3, 1]
    totals = {one: make_method("jtt", variant=one, up=4).total_copies for one in ("fixed", "paper", "code")}
    assert totals == {"fixed": 4, "paper": 5, "code": 4}
    shares = [stage.share for stage in make_method("jtt", variant="code", first=0.25).stages()]
    assert shares == [0.25, 0, 0.75]
    with pytest.raises(InputError, match="whole copies"):
        trainer_of(make_method("jtt", up=0), problem())


@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_jtt_marks_with_frozen_statistics(variant, data):
    trainer = trainer_of(make_method("jtt", variant=variant), data, backbone="mlp-bn", steps=40)
    trainer.run(until=6)
    norm = trainer.network.encoder[1]
    before = norm.running_mean.clone()
    wrong = trainer.scores(data.rows).argmax(1) != data.y
    trainer.method.eval()
    trainer.method.begin(trainer.method.stages()[1], trainer)
    assert torch.equal(before, norm.running_mean) == (variant == "fixed")
    assert (trainer.method.wrong.numpy() == wrong).all() == (variant == "fixed")


def test_jtt_marks_in_batches_of_two_rows_at_least(data):
    """Batch norm in train mode has no statistics of one row."""
    method = make_method("jtt", variant="code")
    trainer = trainer_of(method, data, backbone="mlp-bn", steps=4, batch=1, frozen_norm=True)
    trainer.run()
    assert trainer.method.report()["error_set"] > 0


def test_jtt_says_that_there_is_no_error():
    trainer = trainer_of(make_method("jtt", first=1.0), spurious(rare=0.0), backbone="linear", steps=80)
    with pytest.warns(ErrorSetWarning, match="nothing to copy: lower first"):
        trainer.run()
    assert trainer.method.report() == {"error_set": 0}
    assert trainer.counts is None


def test_jtt_takes_all_rows_at_once_as_often_as_it_copies_them():
    trainer = trainer_of(
        make_method("jtt", first=0.1, up=3), spurious(), backbone="linear", batch=0, steps=60
    )
    trainer.run()
    drawn, weight = trainer._whole()
    assert weight is None
    assert (np.bincount(drawn) == trainer.counts).all()
    assert trainer.counts.max() == 3


def test_jtt_refuses_another_rule_of_drawing(data):
    with pytest.raises(InputError, match="leave 'rwy' out"):
        trainer_of(make_method("rs+jtt"), data).run()


def test_dfr_ignores_what_is_spurious():
    data = spurious(rare=0.02)
    weights = {}
    for name in ("erm", "dfr"):
        trainer = trainer_of(make_method(name), data, backbone="linear", steps=100)
        trainer.run()
        head = trainer.network.head.weight
        weights[name] = (head[1] - head[0]).detach()
    core, wrong = weights["erm"][0].abs(), weights["erm"][1:].abs().sum()
    assert wrong > core  # of the standardised numbers
    core, wrong = weights["dfr"][0].abs(), weights["dfr"][1:].abs().sum()
    assert wrong < 0.05 * core


def test_dfr_is_a_mean_of_sparse_regressions_in_the_features_own_units(data):
    trainer = trainer_of(make_method("dfr", c=0.3, fits=3), data)
    trainer.run()
    z = trainer.features(data.select).astype(float)
    mean, deviation = dfr.standard(z)
    made = []
    for number in range(3):
        rows = dfr.balanced(data.select_group, dfr.rng(0, "baselines", "dfr", number))
        assert len(set(np.bincount(data.select_group[rows]).tolist())) == 1
        scaled = (z[rows] - mean) / deviation
        made.append(dfr.sparse_regression(scaled, data.select_y[rows], 0.3, 3, number))
    fitted = np.mean(made, 0)
    scores = (z - mean) / deviation @ fitted[:, :-1].T + fitted[:, -1]
    assert np.allclose(trainer.scores(data.select), scores, atol=1e-4)
    assert (np.mean(np.abs(fitted[:, :-1]) < 1e-9)) > 0.2  # it is sparse
    assert math.isclose(trainer.method.report()["c"], 0.3)
    assert trainer.method.trains_on_select
    assert make_method("rw+dfr").trains_on_select
    assert not make_method("erm").trains_on_select


def test_dfr_keeps_the_encoder_of_erm(data):
    one, other = (trainer_of(make_method(name), data) for name in ("dfr", "erm"))
    one.run()
    other.run()
    pairs = zip(one.network.encoder.parameters(), other.network.encoder.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


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
    made = dfr.sparse_regression(z, y, 0.5, classes + 1, 0, released=True)
    expected = np.array([[*one.coef_[0], *one.intercept_] for one in oracle.estimators_])
    if classes == 2:
        assert np.allclose(made[1] - made[0], expected[0], atol=5e-3)
    else:
        assert np.allclose(made[:classes], expected, atol=5e-3)
    assert made[classes].tolist() == [0, 0, 0, dfr.NEVER]  # a class without rows
    assert (z @ made[:, :-1].T + made[:, -1]).argmax(1).max() < classes

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
    """Again, without a line of `_choose`: halves, balance, scale, worst group, mean group, smallest C."""
    generator = np.random.default_rng(3)
    group = np.repeat([0, 1, 2, 3], [40, 25, 14, 9])
    y = group // 2
    z = generator.normal(size=(len(y), 4)) * [1, 1, 5, 1] + np.outer(y, [apart, 0, 0, 0])
    z[:, 1] += 2 * (group % 2)
    trainer = trainer_of(make_method("dfr", variant=variant), problem(classes=2))

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
        made = dfr.sparse_regression(scaled[rows], y[rows], c, 2, 0, released=variant == "code")
        right = (scaled @ made[:, :-1].T + made[:, -1]).argmax(1) == y
        each = [right[judged][group[judged] == g].mean() for g in range(4)]
        quality[c] = (min(each), np.mean(each))
    best = [c for c in dfr.GRID if quality[c] == max(quality.values())]
    assert len(best) > 1  # several are equally good
    assert trainer.method._choose(z, y, group, trainer) == best[0]


def test_dfr_does_not_scale_noise():
    z = np.column_stack([1000 + 1e-10 * np.arange(8), np.arange(8.0)])
    assert dfr.standard(z)[1].tolist() == [1, z[:, 1].std()]


def test_dfr_with_a_class_that_validation_lacks_or_a_row_a_group(data):
    kept = data.select_y != 2
    for few in (
        kept,
        np.isin(np.arange(len(kept)), [int(np.argmax(data.select_y == one)) for one in (0, 1)]),
    ):
        less = replace(
            data, select=data.select[few], select_y=data.select_y[few], select_group=data.select_group[few]
        )
        trainer = trainer_of(make_method("dfr", fits=2), less)
        trainer.run()
        assert set(trainer.scores(data.rows).argmax(1)) == {0, 1} or len(less.select) == 2
        assert 2 not in trainer.scores(data.rows).argmax(1)
    one = replace(
        less, select=less.select[:1], select_y=less.select_y[:1], select_group=less.select_group[:1]
    )
    with pytest.raises(InputError, match="two classes"):
        trainer_of(make_method("dfr"), one).run()


def test_dfr_code_scales_the_last_fits_by_the_rows_to_fit(data):
    trainer = trainer_of(make_method("dfr", variant="code", c=0.3, fits=1), data)
    trainer.run()
    z, z_fit = (trainer.features(rows).astype(float) for rows in (data.select, data.rows))
    mean, deviation = dfr.standard(z_fit)
    rows = dfr.balanced(data.select_group, dfr.rng(0, "baselines", "dfr", 0))
    fitted = dfr.sparse_regression(
        (z[rows] - mean) / deviation, data.select_y[rows], 0.3, 3, 0, released=True
    )
    scores = (z - mean) / deviation @ fitted[:, :-1].T + fitted[:, -1]
    assert np.allclose(trainer.scores(data.select), scores, atol=1e-4)


def test_an_estimator_reads_the_drawn_rows_and_never_predicts_a_class_without_one(data):
    linear_model = pytest.importorskip("sklearn.linear_model")
    shifted = Inputs(data.inputs.x + np.where(data.inputs.place < 100, 0, 9)[:, None], data.inputs.place)
    few = replace(
        data, inputs=shifted, classes=4, sampler=Subsampled(cells_of(data.y), kind="suby", per_cell=9)
    )
    fitted = fit_estimator(linear_model.LogisticRegression(), make_method("suby"), few)
    drawn = few.sampler.rows_of(0)
    assert len(drawn) == 27
    x = shifted.x[drawn]
    oracle = linear_model.LogisticRegression().fit((x - x.mean(0)) / x.std(0), data.y[drawn])
    rows = data.select
    wanted = oracle.predict_log_proba((shifted.x[rows] - x.mean(0)) / x.std(0))
    scores = fitted.scores(rows)
    assert np.allclose(scores[:, :3], wanted, atol=1e-3)
    assert (scores[:, 3] == -np.inf).all()


@pytest.mark.parametrize("name", ["jtt", "dfr"])
def test_an_estimator_is_no_network_to_train_twice_or_to_refit(name, data):
    with pytest.raises(InputError, match="trains networks"):
        fit_estimator(object(), make_method(name), data)
