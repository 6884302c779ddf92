from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shiftdata.errors import InputError, NotFoundError
from shiftdata.evaluation.label_shift import (
    ESTIMATORS,
    AbsentClassError,
    NotConvergedError,
    SingularMatrixError,
    estimate_marginal,
    fit_calibrator,
    importance_weights,
    label_weights,
    reweight,
    rlls_rho,
)
from shiftdata.evaluation.label_shift.regularized import Solution, _one_by_one, ridge, solve

#: The estimators without calibration.
mean_prediction, bbse, rlls, mlls = (
    partial(estimate_marginal, name, calibration=None) for name in ("mean", "bbse", "rlls", "mlls")
)

#: A worked example: 10 hold-out rows of 2 classes, 8 of class 0 (6 right), 2 of class 1 (1 right).
LABELS = np.array([0] * 8 + [1] * 2)
PREDICTED = np.array([0] * 6 + [1] * 2 + [0, 1])
TARGET = np.array([0] * 13 + [1] * 7)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


class World:
    """Gaussian classes on a circle, and the right classifier for them: Bayes' rule on the source."""

    def __init__(self, seed, *, alpha=1.0, n=3000, n_classes=5, radius=2.0, prior=None):
        self.generator = np.random.default_rng(seed)
        angles = 2 * np.pi * np.arange(n_classes) / n_classes
        self.centres = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        self.prior = np.full(n_classes, 1 / n_classes) if prior is None else np.array(prior)
        self.marginal = self.generator.dirichlet(alpha * n_classes * self.prior)
        self.source, self.labels = self.draw(self.prior, n)
        self.target, self.true = self.draw(self.marginal, n)

    def draw(self, marginal, n):
        labels = self.generator.choice(len(marginal), size=n, p=marginal)
        points = self.centres[labels] + self.generator.normal(size=(n, 2))
        distances = ((points[:, None] - self.centres) ** 2).sum(axis=2)
        return softmax(np.log(self.prior) - distances / 2), labels

    @property
    def given(self):
        return self.source, self.labels, self.target

    def error(self, estimate):
        return float(np.abs(estimate.marginal - self.marginal).sum())


def distorted(probabilities, temperature, bias):
    """Miscalibrated: as from logits multiplied by `temperature`, with `bias` added."""
    return softmax(np.log(probabilities) * temperature + bias)


# --- worked examples ------------------------------------------------------------------------------


def test_the_table_by_hand():
    # C = [[.6, .1], [.2, .1]] (row predicted, column true), mu = [.65, .35]. C w = mu has w = [.75, 2],
    # so that the marginal is [.8 * .75, .2 * 2] = [.6, .4].
    assert mean_prediction(PREDICTED, LABELS, TARGET).marginal.tolist() == pytest.approx([0.65, 0.35])
    found = bbse(PREDICTED, LABELS, TARGET)
    assert found.weights.tolist() == pytest.approx([0.75, 2])
    assert found.marginal.tolist() == pytest.approx([0.6, 0.4])
    assert (found.method, found.iterations) == ("bbse-paper-hard", 1)
    soft = np.eye(2)[PREDICTED], LABELS, np.eye(2)[TARGET]
    names = [bbse(*soft, hard=hard).method for hard in (False, True)]
    assert names == ["bbse-paper-soft", "bbse-paper-hard"]


def test_negative_weights_become_zero():
    found = bbse(PREDICTED, LABELS, np.zeros(5, dtype=int))  # w = [2.5, -5]
    assert found.marginal.tolist() == [1, 0]
    assert found.weights.tolist() == pytest.approx([1.25, 0])


# --- the optimisation -----------------------------------------------------------------------------


def random_problem(seed):
    generator = np.random.default_rng(seed)
    n_classes = int(generator.integers(2, 9))
    prior = np.maximum(generator.dirichlet(np.full(n_classes, generator.choice([0.5, 5.0]))), 1e-3)
    prior /= prior.sum()
    noise = generator.uniform()
    columns = (1 - noise) * np.eye(n_classes)
    columns += noise * generator.dirichlet(np.full(n_classes, 0.3), size=n_classes).T
    observed = np.abs(
        columns @ generator.dirichlet(np.full(n_classes, 0.5)) + generator.normal(0, 0.01, n_classes)
    )
    return columns * prior, observed / observed.sum(), prior, float(10 ** generator.uniform(-4, 0))


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_scipys(seed, with_prior):
    from scipy import optimize

    confusion, observed, prior, rho = random_problem(seed)
    found = solve(confusion, observed, rho, prior if with_prior else None)

    def objective(weights):
        return np.linalg.norm(confusion @ weights - observed) + rho * np.linalg.norm(weights - 1)

    def sums_to_one(weights):
        return weights @ prior - 1

    starts = [np.ones(len(prior)) + 1e-3 * np.arange(len(prior)), 0.9 * found.weights + 0.1]
    options = {
        "method": "SLSQP",
        "bounds": [(0, None)] * len(prior),
        "options": {"ftol": 1e-14, "maxiter": 1000},
    }
    if with_prior:
        options["constraints"] = [{"type": "eq", "fun": sums_to_one}]
        assert found.weights @ prior == pytest.approx(1)
    best = min(optimize.minimize(objective, start, **options).fun for start in starts)
    assert (found.weights >= 0).all()
    assert found.objective == pytest.approx(objective(found.weights))
    assert found.objective <= best + 1e-7
    assert found.gap <= 1e-8 * found.objective


@pytest.mark.parametrize("seed", [14, 32, 44, 48, *range(8)])
def test_quadratic_problems_have_no_slope_that_the_constraints_allow(seed):
    """The conditions of Karush, Kuhn and Tucker; in the first four weights leave and return without end."""
    generator = np.random.default_rng(seed)
    size = int(generator.integers(2, 6))
    factor = generator.normal(size=(size, size)) * 10 ** generator.uniform(-1, 1, size)
    observed, shares = 3 * generator.normal(size=size), generator.dirichlet(np.ones(size))
    curvature, pull, kappa, ones = factor.T @ factor, factor.T @ observed, 1e-3, np.ones(size)
    matrix, aim = curvature + kappa * np.eye(size), pull + kappa
    for prior in (None, shares):
        for found in (
            ridge(curvature, pull, kappa, prior, ones),
            _one_by_one(matrix, aim, prior, ones),
        ):
            free, slope = found > 0, matrix @ found - aim
            if prior is not None:
                assert found @ prior == pytest.approx(1)
                slope = slope - prior * np.mean(slope[free] / prior[free])
            assert (found >= 0).all()
            assert np.allclose(slope[free], 0, atol=1e-9 * np.abs(matrix).max())
            assert (slope >= -1e-9 * np.abs(matrix).max()).all()


def test_rlls_paper_and_code_solve_their_own_problems():
    from scipy import optimize

    world = World(3, prior=[0.4, 0.3, 0.15, 0.1, 0.05])
    # Not calibrated, so that the predicted and the true source marginal differ.
    source, labels, target = (
        distorted(world.source, 1, np.arange(5) / 4),
        world.labels,
        distorted(world.target, 1, np.arange(5) / 4),
    )
    prior = np.bincount(labels) / len(labels)
    confusion = np.stack([source[labels == j].sum(axis=0) for j in range(5)], axis=1) / len(labels)
    rho = rlls_rho(len(labels), 5)
    theta_bounds = [(-1, None)] * 5

    def code(theta):
        return np.linalg.norm(confusion @ theta - (target.mean(axis=0) - prior)) + rho * np.linalg.norm(theta)

    def paper(theta):
        predicted = source.mean(axis=0)
        return np.linalg.norm(confusion @ theta - (target.mean(axis=0) - predicted)) + rho * np.linalg.norm(
            theta
        )

    for variant, objective in [("code", code), ("paper", paper)]:
        found = rlls(source, labels, target, variant=variant)
        constraints = [{"type": "eq", "fun": lambda theta: theta @ prior}] if variant == "paper" else []
        best = optimize.minimize(
            objective,
            found.weights - 0.9,
            method="SLSQP",
            bounds=theta_bounds,
            constraints=constraints,
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        assert objective(found.weights - 1) <= best.fun + 1e-7
        assert found.marginal == pytest.approx(found.weights * prior)
    assert rlls(source, labels, target).marginal.sum() == pytest.approx(1)
    assert rlls(source, labels, target, rho=0.1).marginal.sum() == pytest.approx(1)
    code_sum = rlls(source, labels, target, variant="code", rho=0.1).marginal.sum()
    assert abs(code_sum - 1) > 1e-3  # as released: it sums to 1 only where it fits exactly


def test_with_a_small_rho_rlls_is_bbse_and_with_a_large_one_no_shift():
    world = World(1)
    assert rlls(*world.given, rho=1e-5).marginal == pytest.approx(bbse(*world.given).marginal, abs=1e-6)
    assert rlls(*world.given, rho=100.0).weights == pytest.approx(np.ones(5), abs=1e-6)


@pytest.mark.parametrize("hard", [False, True])
def test_bbse_as_released_is_ridge_regression_and_does_not_sum_to_1(hard):
    # |C w - mu|^2 + ridge |w|^2 by ordinary least squares on stacked rows.
    world = World(8, prior=[0.4, 0.3, 0.15, 0.1, 0.05], n=400)
    target = world.target[:300]
    source, predicted = (
        np.eye(5)[rows.argmax(axis=1)] if hard else distorted(rows, 1, np.arange(5) / 4)
        for rows in (world.source, target)
    )
    given = (source, world.labels, predicted)
    confusion = np.stack([source[world.labels == j].sum(axis=0) for j in range(5)], axis=1) / 400
    stacked = np.vstack([confusion, 1e-4 * np.eye(5)])
    weights = np.linalg.lstsq(stacked, np.r_[predicted.mean(axis=0), np.zeros(5)], rcond=None)[0]
    found, expected = bbse(*given, variant="code"), np.maximum(weights, 0)
    assert found.weights == pytest.approx(expected, abs=1e-6)
    assert found.marginal == pytest.approx(expected * np.bincount(world.labels) / 400, abs=1e-6)
    paper = bbse(*given)
    assert paper.marginal.sum() == pytest.approx(1)
    assert found.marginal / found.marginal.sum() == pytest.approx(paper.marginal, abs=1e-4)
    code = bbse(PREDICTED, LABELS, np.zeros(5, dtype=int), variant="code")
    assert code.marginal.tolist() == pytest.approx([2, 0], abs=1e-4)  # 2.5 x .8, not divided by its sum
    assert bbse(*ABSENT, variant="code").marginal[2] == 0  # where the paper's cannot be computed
    assert np.isfinite(bbse(*ALIKE, variant="code").marginal).all()


# --- MLLS -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_mlls_maximises_the_likelihood(variant):
    from scipy import optimize

    world = World(2, n=600, prior=[0.4, 0.3, 0.15, 0.1, 0.05])
    source, target = (distorted(p, 1, np.arange(5) / 4) for p in (world.source, world.target))
    found = mlls(source, world.labels, target, variant=variant, tolerance=1e-10)
    base = np.bincount(world.labels) / 600 if variant == "paper" else source.mean(axis=0)

    def loss(logits):
        return -np.log(target / base @ softmax(logits)).mean()

    best = optimize.minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    assert loss(np.log(np.maximum(found.marginal, 1e-300))) <= best.fun + 1e-9
    assert found.marginal == pytest.approx(softmax(best.x), abs=1e-3)
    assert found.iterations > 1


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_mlls_stops_when_the_marginal_moves_less_in_l1(tolerance):
    source, labels, target = World(2, n=300).given
    ratios = target / (np.bincount(labels) / len(labels))
    marginal, steps, change = target.mean(axis=0), 0, np.inf
    while change >= tolerance:
        posterior = ratios * marginal
        before, marginal = marginal, (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
        change, steps = np.abs(marginal - before).sum(), steps + 1
    found = mlls(source, labels, target, tolerance=tolerance)
    assert found.iterations == steps
    assert found.marginal == pytest.approx(marginal, abs=1e-9)


def test_mlls_ends_at_a_change_of_a_millionth_and_may_take_thousands_of_steps():
    looks = np.array([[0.55, 0.45], [0.45, 0.55]])
    given = looks, [0, 1], looks[np.repeat([0, 1], [21, 19])]
    found = mlls(*given)
    assert found.iterations == mlls(*given, tolerance=1e-6).iterations > 500
    assert found.marginal == pytest.approx([0.75, 0.25], abs=1e-3)


@pytest.mark.parametrize(("apart", "refused"), [(1e-7, False), (2e-8, True)])
def test_bbse_refuses_classes_that_are_nearly_predicted_alike(apart, refused):
    """The condition of [[1/2 + e, 1/2 - e], [1/2 - e, 1/2 + e]] is 1 / 2e; 1e7 is the most."""
    source = np.array([[0.5 + apart, 0.5 - apart], [0.5 - apart, 0.5 + apart]])
    given = (source, [0, 1], [[0.5, 0.5]])
    if refused:
        with pytest.raises(SingularMatrixError, match=r"condition 2.5e\+07"):
            bbse(*given)
    else:
        assert bbse(*given).marginal == pytest.approx([0.5, 0.5], abs=1e-6)


def test_a_rare_class_that_is_well_predicted_can_be_estimated():
    """What counts is the condition given the class, 1e6, and not that of the joint matrix, 1e9."""
    prediction = np.array([[0.5 + 5e-7, 0.5 - 5e-7], [0.5 - 5e-7, 0.5 + 5e-7]])
    labels = np.array([0] * 1000 + [1])
    assert bbse(prediction[labels], labels, prediction).marginal == pytest.approx([0.5, 0.5], abs=1e-4)


def test_probabilities_are_divided_by_their_sum_where_it_is_nearly_1():
    world = World(2, n=200)
    scale = np.linspace(0.9955, 1.0045, 200)[:, None]
    nearly = world.source * scale, world.labels, world.target * scale[::-1]
    for method in ESTIMATORS:
        exact = estimate_marginal(method, *world.given).marginal
        assert estimate_marginal(method, *nearly).marginal == pytest.approx(exact, abs=1e-6)
    for wrong in (0.994, 1.006):
        with pytest.raises(InputError, match="each row summing to 1"):
            mean_prediction(world.source * wrong, world.labels, world.target)


# --- calibration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["temperature", "bcts"])
def test_calibration_is_the_maximum_of_the_likelihood(kind):
    from scipy import optimize, special

    world = World(5, n=800)
    source = distorted(world.source, 2.5, np.arange(5) / 2)
    fitted = fit_calibrator(source, world.labels, kind)

    def loss(point):
        bias = point[1:] if kind == "bcts" else 0
        logs = special.log_softmax(np.log(source) * point[0] + bias, axis=1)
        return -logs[np.arange(800), world.labels].mean()

    best = optimize.minimize(loss, np.r_[1.0, np.zeros(5)], method="BFGS", options={"gtol": 1e-8})
    assert loss(np.r_[1 / fitted.temperature, fitted.bias]) <= best.fun + 1e-9
    assert 1 / fitted.temperature == pytest.approx(best.x[0], abs=1e-4)
    assert fitted.bias.sum() == pytest.approx(0, abs=1e-9)
    if kind == "bcts":
        assert fitted.bias == pytest.approx(best.x[1:] - best.x[1:].mean(), abs=1e-3)
    calibrated = fitted(source)
    assert -np.log(calibrated[np.arange(800), world.labels]).mean() == pytest.approx(best.fun)


@pytest.mark.parametrize("kind", ["temperature", "bcts"])
@pytest.mark.parametrize("scale", [5, 10])
def test_calibration_of_what_is_far_too_sure(scale, kind):
    """A full step of Newton's method leads beyond every number from here."""
    world = World(5, n=200, radius=1.0)
    usual, sure = (fit_calibrator(distorted(world.source, by, 0), world.labels, kind) for by in (1, scale))
    assert sure.temperature == pytest.approx(scale * usual.temperature, rel=1e-4)
    assert sure.bias == pytest.approx(usual.bias, abs=1e-4)


def test_calibration_without_a_finite_best_is_refused():
    right, unsure = np.eye(3)[[0, 1, 2]] * 0.4 + 0.2, np.tile([0.6, 0.4], (20, 1))
    with pytest.raises(NotConvergedError, match="worse than chance"):
        fit_calibrator(unsure, np.arange(20) >= 9)  # right in 9 rows of 20: 1 / T is -0.5
    with pytest.raises(NotConvergedError, match="the best temperature is 0"):
        fit_calibrator(right, [0, 1, 2])
    with pytest.raises(NotConvergedError, match="worse than chance"):
        fit_calibrator(right, [1, 2, 0])
    with pytest.raises(AbsentClassError, match="classes 2 have no example to fit a bias on"):
        fit_calibrator(right, [0, 1, 1], "bcts")
    with pytest.raises(InputError, match="calibration must be 'temperature' or 'bcts'"):
        fit_calibrator(right, [0, 1, 1], "platt")
    with pytest.raises(InputError, match="the calibrator is for 3 classes, got 2"):
        fit_calibrator(right, [0, 1, 1])([[0.5, 0.5]])


# --- recovery -------------------------------------------------------------------------------------

RECOVERING = [
    pytest.param(method, options, marks=[pytest.mark.slow] if options else [])
    for method in ("bbse", "rlls", "mlls")
    for options in ({}, {"hard": True}, {"variant": "code"})
    if (method, options) != ("mlls", {"hard": True})
]


def interval(values):
    """The 99 % interval of a mean."""
    from scipy import stats

    half = stats.t.ppf(0.995, len(values) - 1) * stats.sem(values)
    return np.mean(values) - half, np.mean(values) + half


@pytest.mark.parametrize("prior", [None, [0.4, 0.3, 0.15, 0.1, 0.05]], ids=["balanced", "imbalanced"])
@pytest.mark.parametrize(("method", "options"), RECOVERING)
def test_estimators_recover_a_drawn_marginal(method, options, prior):
    worlds = [World(seed, prior=prior) for seed in range(25)]
    errors = np.array([world.error(estimate_marginal(method, *world.given, **options)) for world in worlds])
    baseline = np.array([world.error(estimate_marginal("mean", *world.given)) for world in worlds])
    assert interval(errors)[1] < 0.35 * interval(baseline)[0]
    assert interval(errors - baseline)[1] < 0


def test_mlls_needs_calibration_and_gets_it():
    bias = np.array([1.0, 0.5, 0, -0.5, -1.0])
    raw, corrected, warm = [], [], []
    for seed in range(15):
        world = World(seed)
        given = distorted(world.source, 3, bias), world.labels, distorted(world.target, 3, bias)
        raw.append(world.error(mlls(*given)))
        warm.append(world.error(mlls(*given, calibration="temperature")))
        corrected.append(world.error(mlls(*given, calibration="bcts")))
    assert interval(np.subtract(raw, corrected))[0] > 0.05
    assert interval(np.subtract(warm, corrected))[0] > 0.02
    assert np.mean(corrected) < 0.4 * np.mean(raw)


@pytest.mark.parametrize("prior", [None, [0.4, 0.3, 0.15, 0.1, 0.05]], ids=["balanced", "imbalanced"])
def test_reweighted_predictions_are_more_often_right(prior):
    gains = []
    for seed in range(15):
        world = World(seed, alpha=0.5, radius=1.2, prior=prior)
        adapted = reweight(world.target, rlls(*world.given))
        gains.append(
            (adapted.argmax(axis=1) == world.true).mean() - (world.target.argmax(axis=1) == world.true).mean()
        )
    assert interval(gains)[0] > 0.02


# --- re-weighting ---------------------------------------------------------------------------------


def test_reweighting_by_hand():
    estimate = bbse(PREDICTED, LABELS, TARGET)  # weights .75 and 2, marginal .6 and .4
    assert reweight([[0.5, 0.5]], estimate)[0].tolist() == pytest.approx([0.75 / 2.75, 2 / 2.75])
    balanced = reweight([[0.5, 0.5]], estimate, trained_on="balanced")
    assert balanced[0].tolist() == pytest.approx([0.6, 0.4])
    assert importance_weights(estimate, [1, 0, 0]).tolist() == pytest.approx([2, 0.75, 0.75])
    assert label_weights([0.6, 0.4], [0.8, 0.2]).tolist() == pytest.approx([0.75, 2])


def test_weights_of_known_marginals():
    source, target = np.array([0.25, 0.75, 0]), np.array([0.5, 0.5, 0])
    weights = label_weights(target, source)
    assert weights.tolist() == pytest.approx([2, 2 / 3, 0])
    labels = np.repeat([0, 1], [25, 75])
    assert weights[labels].mean() == pytest.approx(1)
    for wrong, message in [
        ((target, [0.5, 0.5, 0.5]), "source is a marginal"),
        (([0.5, 0.6, -0.1], source), "target is a marginal"),
        (([0.5, 0.4, 0], source), "target is a marginal"),
        (([0.5, 0.4, 0.1], source), "classes 2 are in the target and not in the source"),
        (([0.5, 0.5], source), "lengths differ"),
    ]:
        with pytest.raises(InputError, match=message):
            label_weights(*wrong)


def test_reweighting_with_the_truth_is_bayes_rule():
    world = World(0, prior=[0.4, 0.3, 0.15, 0.1, 0.05])
    estimate = mlls(*world.given)
    exact = replace(estimate, marginal=world.marginal, weights=world.marginal / world.prior)
    likelihood = world.target / world.prior
    posterior = likelihood * world.marginal / (likelihood @ world.marginal)[:, None]
    assert reweight(world.target, exact) == pytest.approx(posterior)


def test_what_reweighting_cannot_use_is_refused():
    estimate = bbse(PREDICTED, LABELS, np.zeros(5, dtype=int))  # class 1 has the weight 0
    with pytest.raises(InputError, match="1 of 2 rows have probability only where the estimated weight is 0"):
        reweight([[0.5, 0.5], [0.0, 1.0]], estimate)
    with pytest.raises(InputError, match="have 3 classes and the estimate 2"):
        reweight([[0.5, 0.5, 0.0]], estimate)
    with pytest.raises(InputError, match="trained_on must be 'source' or 'balanced'"):
        reweight([[0.5, 0.5]], estimate, trained_on="target")
    with pytest.raises(InputError, match=r"labels: 1 of .* are too large"):
        importance_weights(estimate, [0, 2])
    lacking = mean_prediction([[0.2, 0.8]], [1], [[0.3, 0.7]])
    assert np.isnan(lacking.weights[0])
    with pytest.raises(InputError, match="no weight for classes \\[0\\], which the hold-out lacked"):
        reweight([[0.5, 0.5]], lacking)


# --- what released code passes over in silence ----------------------------------------------------

ABSENT = (np.full((4, 3), 1 / 3), [0, 0, 1, 1], np.full((2, 3), 1 / 3))
ALIKE = (np.full((4, 2), 0.5), [0, 0, 1, 1], np.array([[0.6, 0.4]]))


@pytest.mark.parametrize("method", ["bbse", "rlls", "mlls"])
def test_a_class_without_examples_is_an_error(method):
    with pytest.raises(AbsentClassError, match="classes 2 of 3 have no example among the 4"):
        estimate_marginal(method, *ABSENT)


def test_a_matrix_without_inverse_is_an_error():
    with pytest.raises(SingularMatrixError, match=r"cannot be inverted.*or rlls"):
        estimate_marginal("bbse", *ALIKE)
    never = (np.array([0, 1, 1, 0]), np.array([0, 1, 2, 2]), np.array([0, 1]))  # class 2 is never predicted
    with pytest.raises(SingularMatrixError):
        bbse(*never)
    assert rlls(*ALIKE).marginal.tolist() == pytest.approx([0.5, 0.5])  # nothing known: no shift


def test_a_class_that_is_never_predicted_is_an_error_for_mlls_as_released():
    given = ([[1, 0], [1, 0], [1, 0]], [0, 0, 1], [[0.5, 0.5]])
    with pytest.raises(AbsentClassError, match="classes 1 are never predicted"):
        mlls(*given, variant="code")
    assert np.isfinite(mlls(*given).marginal).all()


def test_an_iteration_that_does_not_end_is_an_error(monkeypatch):
    world = World(0)
    with pytest.raises(NotConvergedError, match=r"MLLS still changed by .* after 3 steps"):
        mlls(*world.given, max_iterations=3)
    far = Solution(weights=np.ones(5), objective=1.0, gap=0.1, iterations=79)
    monkeypatch.setattr("shiftdata.evaluation.label_shift.estimators.solve", lambda *given: far)
    with pytest.raises(NotConvergedError, match=r"RLLS stopped 1.0e-01 above the minimum: pass another rho"):
        rlls(*world.given)


# --- input ----------------------------------------------------------------------------------------

P = [[0.5, 0.5], [0.2, 0.8]]


@pytest.mark.parametrize(
    ("source", "labels", "target", "message"),
    [
        ([[2.0, -1.0], [0.2, 0.8]], [0, 1], P, "source must be probabilities"),
        (P, [0, 1], [[3.0, 1.0]], "target must be probabilities: .* Softmax logits first"),
        (P, [0, 1], [[np.nan, 1.0]], "target: 1 of 2 are nan or missing"),
        (P, [0, 1], np.zeros((0, 2)), "target: empty; give at least one row"),
        (P, [0], P, "lengths differ: source 2, labels 1"),
        (P, [0, 2], P, "labels: 1 of 2 are too large .*: 2.; allowed are 0 to 1"),
        (P, [0.5, 1.0], P, "labels: 1 of 2 are not whole numbers"),
        (P, [0, -1], P, "labels: 1 of 2 are negative"),
        (P, [0, 1], [[0.2, 0.3, 0.5]], "source has 2 classes and target 3"),
        (P, [0, 1], [0, 1], "must both be probabilities"),
    ],
)
@pytest.mark.parametrize("method", ESTIMATORS)
def test_what_cannot_be_used_is_refused(method, source, labels, target, message):
    with pytest.raises(InputError, match=message):
        estimate_marginal(method, source, labels, target)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("mean", {"variant": "code"}, "the estimator 'mean' takes no variant, only calibration, hard"),
        ("bbse", {"variant": "papre"}, "variant must be 'paper' or 'code'"),
        ("mlls", {"hard": True}, "the estimator 'mlls' takes no hard"),
        ("bbse", {"calibration": "platt"}, "calibration must be 'temperature' or 'bcts'"),
    ],
)
def test_options_that_mean_nothing_are_refused(method, options, message):
    with pytest.raises(InputError, match=message):
        estimate_marginal(method, *World(0, n=200).given, **options)


def test_other_refusals():
    with pytest.raises(NotFoundError, match="unknown estimator 'blls'; did you mean 'rlls' or 'mlls'"):
        estimate_marginal("blls", P, [0, 1], P)
    with pytest.raises(InputError, match="mlls needs probabilities"):
        mlls([0, 1], [0, 1], [0, 1])
    with pytest.raises(InputError, match="class ids cannot be calibrated"):
        bbse([0, 1], [0, 1], [0, 1], calibration="temperature")
    for rho in (0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="rho must be above 0 and finite"):
            rlls(P, [0, 1], P, rho=rho)


@given(st.integers(0, 10_000), st.sampled_from(sorted(ESTIMATORS)), st.sampled_from([None, "code"]))
def test_estimates_are_marginals_and_do_not_depend_on_the_order_of_rows(seed, method, variant):
    world = World(seed, n=150, n_classes=3)
    assume(np.isin(np.arange(3), world.labels).all())
    options = {} if method == "mean" else {"variant": variant}
    found = estimate_marginal(method, *world.given, **options)
    assert (found.marginal >= 0).all()
    if found.method not in ("rlls-code-soft", "bbse-code-soft"):
        assert found.marginal.sum() == pytest.approx(1)
    assert found.weights * np.bincount(world.labels) / 150 == pytest.approx(found.marginal)
    order, other = (world.generator.permutation(150) for _ in range(2))
    again = estimate_marginal(
        method, world.source[order], world.labels[order], world.target[other], **options
    )
    assert again.marginal == pytest.approx(found.marginal, abs=1e-6)
    renamed = np.array([2, 0, 1])  # class c becomes renamed[c]
    back = np.argsort(renamed)
    swapped = estimate_marginal(
        method, world.source[:, back], renamed[world.labels], world.target[:, back], **options
    )
    assert swapped.marginal[renamed] == pytest.approx(found.marginal, abs=1e-6)
