"""Methods that adapt after training, wrappers for label shift, and what all that read the target promise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import shiftdata as sd
from shiftdata.baselines import METHODS, Source, Training, losses, make_method, train
from shiftdata.baselines.methods import label_shift
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.methods.label_shift import RS
from shiftdata.baselines.zoo.adaptation import logistic_regression
from shiftdata.errors import InputError
from shiftdata.evaluation.label_shift.estimators import log_ratios
from shiftdata.evaluation.sampling import FixedRows
from tests.baselines.problems import PLAIN, inputs_of, problem, trainer_of

AROUND = ("rs+rw+dann", "rw+rs+pseudo-label", "rs+bn-adapt")
WITH_TARGET = [*(name for name in METHODS if "target" in make_method(name).needs), *AROUND]


def with_x(data, x):
    return replace(data, source=Source(x.astype(np.float32)))


# What every method that reads the target promises.


@pytest.fixture(scope="module")
def uda(tiny):
    return sd.task(tiny, "uda", source="red", target="blue")


#: Those that read the target outside of batches, and one that does not, in every test; slowly all of them.
QUICK = {"dann", "dare", "rs+rw+dann", "tent", "uniot"}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in WITH_TARGET]
)
@pytest.mark.filterwarnings("ignore::shiftdata.evaluation.label_shift.estimators.EstimateWarning")
def test_labels_of_the_target_have_no_say(name, uda, monkeypatch):
    if "unknown" in make_method(name).needs:  # a target with classes of its own
        own = {"shared": 2, "source_private": 0, "target_private": 1}
        uda = sd.task(uda.metadata, "unida", source="red", target="blue", on_empty="report", **own)

    def scores():
        quick = Training(steps=3, batch=16)
        return train(uda, name, side=16, training=quick, backbone="small-cnn").scores

    seen, truth = scores(), uda.metadata.label
    hidden = np.concatenate(
        [rows.indices for rows in uda.sets.values() if rows.role in ("unlabelled", "test")]
    )
    for rows, matters in ((hidden, False), (uda.rows(uda.set_of("fit")), True)):
        if matters and name != "dann":
            continue  # one is enough to see that the poison works
        poisoned = truth.copy()
        poisoned[rows] = np.roll(truth[rows], 1)
        monkeypatch.setattr(sd.Metadata, "label", poisoned)
        assert (scores() == seen).all() != matters


# Batch norm.


@pytest.mark.parametrize("name", ["bn-adapt", "tent"])
@pytest.mark.parametrize("variant", ["fixed", "code"])
def test_what_test_time_methods_move(data, name, variant):
    before = trainer_of(make_method("erm"), data, backbone="mlp-bn")
    before.run()
    after = trainer_of(make_method(name, variant=variant), data, backbone="mlp-bn")
    after.run()
    moved = {
        key
        for (key, value), adapted in zip(
            before.network.state_dict().items(), after.network.state_dict().values(), strict=True
        )
        if not torch.equal(value, adapted)
    }
    norms = {f"encoder.{place}." for place in (1, 4)}
    wanted = {"running_mean", "running_var", "num_batches_tracked"}
    wanted |= {"weight", "bias"} if name == "tent" else set()
    assert moved == {norm + name for norm in norms for name in wanted}


def test_bn_adapt_pools_the_target_or_moves_towards_it(data):
    for variant in ("fixed", "code"):
        erm = trainer_of(make_method("erm"), data, backbone="mlp-bn")
        erm.run()
        trainer = trainer_of(make_method("bn-adapt", variant=variant), data, backbone="mlp-bn")
        trainer.run()
        assert trainer.progress.total == 22  # 60 rows in two batches
        with torch.no_grad():
            z = trainer.network.encoder[0](inputs_of(trainer, data.target))
        mean = trainer.network.encoder[1].running_mean
        if variant == "fixed":
            assert torch.allclose(mean, z.mean(0), atol=1e-5)
        else:
            past = 0.81 * erm.network.encoder[1].running_mean
            assert torch.allclose(mean - past, 0.19 * z.mean(0), atol=0.1)
            assert not torch.allclose(mean, z.mean(0), atol=0.1)


def test_entropy_of_predictions():
    logits = torch.tensor([[0.0, 0, 0, 0], [1000, 0, 0, 0], [0, 0, math.log(2), -1e9]])
    expected = [math.log(4), 0, 1.5 * math.log(2)]
    assert losses.entropy(logits).tolist() == pytest.approx(expected)
    assert losses.tent(logits).item() == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("settings", [PLAIN, {"weight_decay": 0.5}], ids=["plain", "decay"])
def test_tents_step_goes_down_the_entropy_of_the_batch(data, settings):
    """A step of its own rate, whatever that of the training, and without decay, in train mode."""
    trainer = trainer_of(make_method("tent", rate=0.01), data, backbone="mlp-bn", batch=60, **settings)
    trainer.run(until=21)  # trained, and the statistics are taken
    network = trainer.network
    norms = [network.encoder[place] for place in (1, 4)]
    parameters = [parameter for norm in norms for parameter in (norm.weight, norm.bias)]
    before = [parameter.detach().clone() for parameter in parameters]
    network.train()
    p = network(inputs_of(trainer, data.target)).softmax(1)
    entropy = -(p * p.log()).sum(1).mean()
    wanted = torch.autograd.grad(entropy, parameters)
    network.load_state_dict(network.state_dict())
    trainer.run()
    assert trainer.progress.total == 22
    for parameter, old, gradient in zip(parameters, before, wanted, strict=True):
        clear = gradient.abs() > 1e-5  # others may lie on a kink
        step = gradient if settings is PLAIN else gradient.sign()  # Adam's first
        assert torch.allclose((parameter - old)[clear], -0.01 * step[clear], atol=1e-4)
    with torch.no_grad():
        p = network.train()(inputs_of(trainer, data.target)).softmax(1)
    assert -(p * p.log()).sum(1).mean() < entropy


# DARE.


def test_whitened_features_have_no_correlation():
    torch.manual_seed(0)
    z = (torch.randn(400, 3) @ torch.tensor([[2.0, 0, 0], [1, 1, 0], [0, 3, 0.5]]) + 4).double()
    for centred in (True, False):
        mu, whitener = losses.whitening(z, centred)
        assert torch.allclose(mu, z.mean(0) if centred else torch.zeros(3).double())
        moment = (z - mu).T @ (z - mu) / 400
        shrunk = 0.99 * moment + 0.01 * torch.trace(moment) / 3 * torch.eye(3)
        assert torch.allclose(whitener @ shrunk @ whitener, torch.eye(3).double(), atol=1e-8)
        assert torch.allclose(whitener, whitener.T)
    mu, whitener = losses.whitening(torch.ones(1, 3).double())
    assert torch.equal(whitener, torch.eye(3).double())


def test_the_head_is_scikit_learns():
    generator = np.random.default_rng(0)
    y = generator.integers(3, size=200)
    z = generator.normal(size=(200, 5)) + np.eye(5)[y] * 2
    for strength in (0.01, 1.0, 100.0):
        head = logistic_regression(torch.from_numpy(z), torch.from_numpy(y), 3, strength)
        weight, bias = head[:, :-1], head[:, -1]
        oracle = LogisticRegression(C=strength, tol=1e-8, max_iter=2000).fit(z, y)
        assert weight.numpy() == pytest.approx(oracle.coef_, abs=1e-3)
        assert (bias - bias.mean()).numpy() == pytest.approx(oracle.intercept_, abs=1e-3)


# RS.


def test_rs_balances_what_is_predicted(data):
    trainer = trainer_of(make_method("rs+pseudo-label"), data)
    trainer.run()
    shuffled = FixedRows(np.arange(60))
    drawn = trainer.method.target_rows(trainer, shuffled, 3, True)
    predicted = trainer.scores(data.target).argmax(1)
    assert len(drawn) == 60
    assert np.ptp(np.bincount(predicted)) > 8
    many = np.concatenate([trainer.method.target_rows(trainer, shuffled, epoch, True) for epoch in range(40)])
    share = np.bincount(predicted[many], minlength=3) / len(many)
    assert share == pytest.approx(np.full(3, 1 / 3), abs=0.05)
    trainer.seed += 1
    assert (trainer.method.target_rows(trainer, shuffled, 3, True) != drawn).any()
    trainer.seed -= 1
    # Within an epoch that began before, the model's new predictions change nothing.
    with torch.no_grad():
        trainer.network.head.weight.neg_()
    assert (trainer.method.target_rows(trainer, shuffled, 3, False) == drawn).all()
    assert (trainer.method.target_rows(trainer, shuffled, 3, True) != drawn).any()


def test_rs_draws_the_source_by_class_and_goes_around_no_other_rule(uda):
    assert make_method("rs+dann").sampler == make_method("rs+deepjdot").sampler == "rwy"
    for inner in ("rwg", "subg"):
        with pytest.raises(InputError, match=r"rs draws rows by class.*leave one of them out"):
            make_method(f"rs+{inner}")
    run = train(uda, "rs+erm", side=16, training=Training(steps=2, batch=8))
    assert run.model.trainer.data.sampler.kind == "rwy"

    class Balanced(ERM):
        sampler = "class-balanced"

    assert RS(Balanced()).sampler == "rwy"


# RW.


def gaussian(shares, rows, seed=0):
    """Two classes around -1 and 1, and the probability of the second one under given shares."""
    generator = np.random.default_rng(seed)
    y = (generator.random(rows) < shares[1]).astype(np.int64)
    return generator.normal(size=rows) + 2 * y - 1, y


def posterior(x, shares):
    p = 1 / (1 + shares[0] / shares[1] * np.exp(-2 * x))
    return np.stack([1 - p, p], 1)


def reweighted(log_ratio, scores):
    wrapper = make_method("rw+erm")
    wrapper.register_buffer("log_ratio", torch.as_tensor(log_ratio).float())
    wrapper.inner.predict = lambda x: x
    return wrapper.predict(torch.from_numpy(scores)).softmax(1).numpy()


def test_equal_shares_change_no_prediction_and_true_ones_are_bayes_optimal():
    x, _ = gaussian((0.5, 0.5), 500)
    scores = np.log(posterior(x, (0.7, 0.3))) + 3  # not normalised
    assert reweighted([0.0, 0.0], scores) == pytest.approx(posterior(x, (0.7, 0.3)), abs=1e-5)
    ratio = np.log(np.array([0.1, 0.9]) / [0.7, 0.3])
    assert reweighted(ratio, scores) == pytest.approx(posterior(x, (0.1, 0.9)), abs=1e-5)


@pytest.mark.parametrize("estimator", ["rlls", "bbse", "mlls"])
@pytest.mark.parametrize("trained", [(0.7, 0.3), (0.5, 0.5)])
def test_ratios_are_those_of_target_and_training(estimator, trained):
    """Posteriors under the shares that a model was trained on: the source's, or equal ones after RS."""
    held, labels = gaussian((0.7, 0.3), 20_000)
    target, truth = gaussian((0.15, 0.85), 20_000, seed=1)
    ratios = log_ratios(
        estimator, posterior(held, trained), labels, posterior(target, trained), np.array(trained)
    )
    exact = np.log(np.bincount(truth) / 20_000 / trained)
    assert ratios == pytest.approx(exact, abs=0.08)
    better = (np.log(posterior(target, trained)) + ratios).argmax(1)
    best = (np.log(posterior(target, (0.15, 0.85)))).argmax(1)
    assert (better == best).mean() > 0.98


def test_shares_that_a_sampler_trains_on(data):
    known = replace(data, y=np.repeat([0, 1], [6, 3]), group=np.array([0, 0, 1, 1, 2, 2, 3, 3, 3]))
    of_labels, of_groups = ("rwy", "suby", "class-balanced"), ("rwg", "subg", "uniform-groups")
    expected = {"shuffle": [2 / 3, 1 / 3, 0], "per-domain": [2 / 3, 1 / 3, 0]}
    expected |= {rule: [0.5, 0.5, 0] for rule in of_labels} | {rule: [0.75, 0.25, 0] for rule in of_groups}
    for rule, shares in expected.items():
        assert label_shift.trained_shares(rule, known).tolist() == pytest.approx(shares)


@pytest.mark.parametrize("name", ["rw", "rw-mlls", "rs+rw+erm", "rw+rs+erm"])
def test_label_shift_is_undone(name):
    data = problem(rows=900, target=500, shift=0.0, domains=1)
    truth = np.zeros(len(data.source.array), np.int64)
    truth[data.rows], truth[data.select] = data.y, data.select_y
    generator = np.random.default_rng(5)
    x = data.source.array.copy()
    truth[data.target] = generator.choice(3, size=500, p=[0.8, 0.15, 0.05])
    x[data.target] = generator.normal(size=(500, 6))
    x[data.target, truth[data.target]] += 2
    x[data.target, 3] += 1
    x[np.arange(len(x)), truth] -= 0.8  # classes overlap
    data = with_x(data, x)
    erm = trainer_of(make_method("erm"), data, backbone="linear", steps=60, learning_rate=0.05)
    corrected = trainer_of(make_method(name), data, backbone="linear", steps=60, learning_rate=0.05)
    erm.run()
    corrected.run()
    accuracy = [
        (trainer.scores(data.target).argmax(1) == truth[data.target]).mean() for trainer in (erm, corrected)
    ]
    assert accuracy[1] > accuracy[0] + 0.05
    ratio = corrected.method.state_dict()["log_ratio" if name.startswith("rw") else "inner.log_ratio"]
    trained = np.bincount(data.y) / 900 if name.startswith("rw-") or name == "rw" else np.full(3, 1 / 3)
    assert ratio.exp().numpy() * trained == pytest.approx(np.bincount(truth[data.target]) / 500, abs=0.08)
