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
    EstimationError,
    estimate_marginal,
    estimators,
    reweight,
)
from shiftdata.evaluation.label_shift.calibration import PENALTY, fit_calibrator
from shiftdata.evaluation.label_shift.estimators import rlls_rho
from shiftdata.evaluation.label_shift.evidence import evidence_of
from shiftdata.evaluation.label_shift.regularized import Solution, ridge, solve

#: The estimators without calibration and warnings.
mean_prediction, bbse, rlls, mlls = (
    partial(estimate_marginal, name, calibrate=False, warn=False) for name in ("mean", "bbse", "rlls", "mlls")
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


def test_the_worked_example():
    # C = [[.6, .1], [.2, .1]] (row predicted, column true), mu = [.65, .35]. C w = mu has w = [.75, 2],
    # so that the marginal is [.8 * .75, .2 * 2] = [.6, .4].
    assert mean_prediction(PREDICTED, LABELS, TARGET).marginal.tolist() == pytest.approx([0.65, 0.35])
    estimate = bbse(PREDICTED, LABELS, TARGET)
    assert estimate.weights.tolist() == pytest.approx([0.75, 2])
    assert estimate.marginal.tolist() == pytest.approx([0.6, 0.4])
    assert estimate.method == "bbse-paper-hard"
    assert bbse(np.eye(2)[PREDICTED], LABELS, np.eye(2)[TARGET]).method == "bbse-paper-soft"


def test_negative_weights_become_zero():
    estimate = bbse(PREDICTED, LABELS, np.zeros(5, dtype=int))  # w = [2.5, -5]
    assert estimate.marginal.tolist() == [1, 0]
    assert estimate.weights.tolist() == pytest.approx([1.25, 0])


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
    solution = solve(confusion, observed, rho, prior if with_prior else None)

    def objective(weights):
        return np.linalg.norm(confusion @ weights - observed) + rho * np.linalg.norm(weights - 1)

    def sums_to_one(weights):
        return weights @ prior - 1

    starts = [np.ones(len(prior)) + 1e-3 * np.arange(len(prior)), 0.9 * solution.weights + 0.1]
    options = {
        "method": "SLSQP",
        "bounds": [(0, None)] * len(prior),
        "options": {"ftol": 1e-14, "maxiter": 1000},
    }
    if with_prior:
        options["constraints"] = [{"type": "eq", "fun": sums_to_one}]
        assert solution.weights @ prior == pytest.approx(1)
    best = min(optimize.minimize(objective, start, **options).fun for start in starts)
    assert (solution.weights >= 0).all()
    assert solution.objective == pytest.approx(objective(solution.weights))
    assert solution.objective <= best + 1e-7
    assert solution.gap <= 1e-8 * solution.objective


@pytest.mark.parametrize("seed", [14, 32, 44, 48, *range(8)])
def test_quadratic_problems_meet_the_conditions_of_karush_kuhn_and_tucker(seed):
    """In the first four, weights that are fixed and freed together leave and return without end."""
    generator = np.random.default_rng(seed)
    size = int(generator.integers(2, 6))
    factor = generator.normal(size=(size, size)) * 10 ** generator.uniform(-1, 1, size)
    observed, shares = 3 * generator.normal(size=size), generator.dirichlet(np.ones(size))
    curvature, pull, kappa, ones = factor.T @ factor, factor.T @ observed, 1e-3, np.ones(size)
    matrix, aim = curvature + kappa * np.eye(size), pull + kappa
    for prior in (None, shares):
        weights = ridge(curvature, pull, kappa, prior, ones)
        free, gradient = weights > 0, matrix @ weights - aim
        if prior is not None:
            assert weights @ prior == pytest.approx(1)
            gradient = gradient - prior * np.mean(gradient[free] / prior[free])
        assert (weights >= 0).all()
        assert np.allclose(gradient[free], 0, atol=1e-9 * np.abs(matrix).max())
        assert (gradient >= -1e-9 * np.abs(matrix).max()).all()


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
        estimate = rlls(source, labels, target, variant=variant)
        constraints = [{"type": "eq", "fun": lambda theta: theta @ prior}] if variant == "paper" else []
        best = optimize.minimize(
            objective,
            estimate.weights - 0.9,
            method="SLSQP",
            bounds=theta_bounds,
            constraints=constraints,
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        assert objective(estimate.weights - 1) <= best.fun + 1e-7
        assert estimate.marginal == pytest.approx(estimate.weights * prior)
    assert rlls(source, labels, target).marginal.sum() == pytest.approx(1)
    code_sum = rlls(source[:60], labels[:60], target[:60], variant="code").marginal.sum()
    assert abs(code_sum - 1) > 1e-3  # as released: it sums to 1 only where it fits exactly


def test_with_a_small_rho_rlls_is_bbse_and_with_a_large_one_no_shift():
    world = World(1)
    evidence, prior = evidence_of(*world.given), np.bincount(world.labels) / len(world.labels)
    exact, none = (solve(evidence.confusion, evidence.observed, rho, prior).weights for rho in (1e-5, 100.0))
    assert exact == pytest.approx(bbse(*world.given).weights, abs=1e-6)
    assert none == pytest.approx(np.ones(5), abs=1e-6)


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
    estimate, expected = bbse(*given, variant="code"), np.maximum(weights, 0)
    assert estimate.weights == pytest.approx(expected, abs=1e-6)
    assert estimate.marginal == pytest.approx(expected * np.bincount(world.labels) / 400, abs=1e-6)
    paper = bbse(*given)
    assert paper.marginal.sum() == pytest.approx(1)
    assert estimate.marginal / estimate.marginal.sum() == pytest.approx(paper.marginal, abs=1e-4)
    code = bbse(PREDICTED, LABELS, np.zeros(5, dtype=int), variant="code")
    assert code.marginal.tolist() == pytest.approx([2, 0], abs=1e-4)  # 2.5 x .8, not divided by its sum
    assert bbse(*ABSENT, variant="code").marginal[2] == 0  # where the paper's cannot be computed
    assert np.isfinite(bbse(*ALIKE, variant="code").marginal).all()


# --- MLLS -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_mlls_maximises_the_likelihood(variant, monkeypatch):
    from scipy import optimize

    monkeypatch.setattr(estimators, "TOLERANCE", 1e-10)
    world = World(2, n=600, prior=[0.4, 0.3, 0.15, 0.1, 0.05])
    source, target = (distorted(p, 1, np.arange(5) / 4) for p in (world.source, world.target))
    estimate = mlls(source, world.labels, target, variant=variant)
    base = np.bincount(world.labels) / 600 if variant == "paper" else source.mean(axis=0)

    def loss(logits):
        return -np.log(target / base @ softmax(logits)).mean()

    best = optimize.minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    assert loss(np.log(np.maximum(estimate.marginal, 1e-300))) <= best.fun + 1e-9
    assert estimate.marginal == pytest.approx(softmax(best.x), abs=1e-3)


def test_mlls_ends_at_a_change_of_a_millionth_and_may_take_thousands_of_steps(monkeypatch):
    looks = np.array([[0.55, 0.45], [0.45, 0.55]])
    given = looks, [0, 1], looks[np.repeat([0, 1], [21, 19])]
    marginal = mlls(*given).marginal
    assert marginal == pytest.approx([0.75, 0.25], abs=1e-3)
    # Another step would move it by less than a millionth.
    ratios = given[2] / 0.5
    again = marginal * (ratios.T @ (1 / (ratios @ marginal))) / 40
    assert 0 < np.abs(again - marginal).sum() < 1e-6
    monkeypatch.setattr(estimators, "MAX_STEPS", 500)
    with pytest.raises(EstimationError, match="after 500 steps"):
        mlls(*given)


@pytest.mark.parametrize(("apart", "refused"), [(1e-7, False), (2e-8, True)])
def test_bbse_refuses_classes_that_are_nearly_predicted_alike(apart, refused):
    """The condition of [[1/2 + e, 1/2 - e], [1/2 - e, 1/2 + e]] is 1 / 2e; 1e7 is the most."""
    source = np.array([[0.5 + apart, 0.5 - apart], [0.5 - apart, 0.5 + apart]])
    given = (source, [0, 1], [[0.5, 0.5]])
    if refused:
        with pytest.raises(EstimationError, match=r"condition 2.5e\+07"):
            bbse(*given)
    else:
        assert bbse(*given).marginal == pytest.approx([0.5, 0.5], abs=1e-6)


def test_a_rare_class_that_is_well_predicted_can_be_estimated():
    """The condition given the class, 1e6, decides, and not that of the joint matrix, 1e9."""
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


def calibrated_on(source, labels):
    return fit_calibrator(evidence_of(source, labels, source))


def test_calibration_is_the_maximum_of_the_penalised_likelihood():
    from scipy import optimize, special

    world = World(5, n=800)
    source = distorted(world.source, 2.5, np.arange(5) / 2)
    logs, fitted = np.log(source), calibrated_on(source, world.labels)
    spread = logs.var(axis=1).mean()

    def loss(point):
        likelihood = special.log_softmax(logs * point[0] + point[1:], axis=1)[np.arange(800), world.labels]
        return PENALTY / 1600 * ((point[1:] ** 2).sum() + 0.01 * spread * point[0] ** 2) - likelihood.mean()

    best = optimize.minimize(loss, np.r_[1.0, np.zeros(5)], method="BFGS", options={"gtol": 1e-8})
    assert loss(np.r_[1 / fitted.temperature, fitted.bias]) <= best.fun + 1e-9
    assert 1 / fitted.temperature == pytest.approx(best.x[0], abs=1e-4)
    assert fitted.bias.sum() == pytest.approx(0, abs=1e-9)
    assert fitted.bias == pytest.approx(best.x[1:] - best.x[1:].mean(), abs=1e-3)
    assert fitted(source) == pytest.approx(softmax(logs * best.x[0] + best.x[1:]), abs=1e-3)


@pytest.mark.parametrize("scale", [5, 10])
def test_calibration_of_an_overconfident_classifier(scale):
    """A full step of Newton's method leads beyond every number from here."""
    world = World(5, n=200, radius=1.0)
    usual, sure = (calibrated_on(distorted(world.source, by, 0), world.labels) for by in (1, scale))
    assert sure.temperature == pytest.approx(scale * usual.temperature, rel=1e-4)
    assert sure.bias == pytest.approx(usual.bias, abs=1e-4)


def test_what_cannot_be_calibrated_is_refused():
    right = np.eye(3)[[0, 1, 2]] * 0.4 + 0.2
    with pytest.raises(EstimationError, match="worse than chance"):
        calibrated_on(np.tile(right, (20, 1)), np.tile([1, 2, 0], 20))
    with pytest.raises(EstimationError, match="classes 2 of 3 have no example"):
        calibrated_on(right, [0, 1, 1])
    with pytest.raises(InputError, match="class ids cannot be calibrated"):
        calibrated_on([0, 1], [0, 1])
    with pytest.raises(InputError, match="the calibrator is for 3 classes, got 2"):
        calibrated_on(right, [0, 1, 2])([[0.5, 0.5]])


# --- recovery -------------------------------------------------------------------------------------

RECOVERING = [
    pytest.param(method, options, marks=[pytest.mark.slow] if options else [])
    for method in ("bbse", "rlls", "mlls")
    for options in ({}, {"variant": "code"})
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


# --- re-weighting ---------------------------------------------------------------------------------


def test_reweighting_the_worked_example():
    estimate = bbse(PREDICTED, LABELS, TARGET)  # weights .75 and 2, marginal .6 and .4
    assert reweight([[0.5, 0.5]], estimate)[0].tolist() == pytest.approx([0.75 / 2.75, 2 / 2.75])


def test_reweighting_with_the_truth_is_bayes_rule():
    world = World(0, prior=[0.4, 0.3, 0.15, 0.1, 0.05])
    estimate = mlls(*world.given)
    exact = replace(estimate, marginal=world.marginal, weights=world.marginal / world.prior)
    likelihood = world.target / world.prior
    posterior = likelihood * world.marginal / (likelihood @ world.marginal)[:, None]
    assert reweight(world.target, exact) == pytest.approx(posterior)


def test_unusable_input_of_reweighting_is_refused():
    estimate = bbse(PREDICTED, LABELS, np.zeros(5, dtype=int))  # class 1 has the weight 0
    with pytest.raises(InputError, match="1 of 2 rows have probability only where the weight is 0"):
        reweight([[0.5, 0.5], [0.0, 1.0]], estimate)
    with pytest.raises(InputError, match="have 3 classes, the estimate 2"):
        reweight([[0.5, 0.5, 0.0]], estimate)
    lacking = mean_prediction([[0.2, 0.8]], [1], [[0.3, 0.7]])
    assert np.isnan(lacking.weights[0])
    with pytest.raises(InputError, match="classes 0 have no weight"):
        reweight([[0.5, 0.5]], lacking)


# --- errors where released code is silent ---------------------------------------------------------

ABSENT = (np.full((4, 3), 1 / 3), [0, 0, 1, 1], np.full((2, 3), 1 / 3))
ALIKE = (np.full((4, 2), 0.5), [0, 0, 1, 1], np.array([[0.6, 0.4]]))


@pytest.mark.parametrize("method", ["bbse", "rlls", "mlls"])
def test_a_class_without_examples_is_an_error(method):
    with pytest.raises(EstimationError, match="classes 2 of 3 have no example among the 4"):
        estimate_marginal(method, *ABSENT)


def test_a_matrix_without_inverse_is_an_error():
    with pytest.raises(EstimationError, match=r"cannot be inverted.*or use rlls"):
        estimate_marginal("bbse", *ALIKE)
    never = (np.array([0, 1, 1, 0]), np.array([0, 1, 2, 2]), np.array([0, 1]))  # class 2 is never predicted
    with pytest.raises(EstimationError):
        bbse(*never)
    assert rlls(*ALIKE).marginal.tolist() == pytest.approx([0.5, 0.5])  # nothing known: no shift


def test_a_class_that_is_never_predicted_is_an_error_for_mlls_as_released():
    given = ([[1, 0], [1, 0], [1, 0]], [0, 0, 1], [[0.5, 0.5]])
    with pytest.raises(EstimationError, match="classes 1 are never predicted"):
        mlls(*given, variant="code")
    assert np.isfinite(mlls(*given).marginal).all()


def test_an_iteration_that_does_not_end_is_an_error(monkeypatch):
    world = World(0)
    far = Solution(weights=np.ones(5), objective=1.0, gap=0.1)
    monkeypatch.setattr("shiftdata.evaluation.label_shift.estimators.solve", lambda *given: far)
    with pytest.raises(EstimationError, match=r"RLLS stopped 1.0e-01 above the minimum: use bbse or mlls"):
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
def test_unusable_input_is_refused(method, source, labels, target, message):
    with pytest.raises(InputError, match=message):
        estimate_marginal(method, source, labels, target)


def test_other_refusals():
    with pytest.raises(NotFoundError, match="unknown estimator 'blls'; did you mean 'rlls' or 'mlls'"):
        estimate_marginal("blls", P, [0, 1], P)
    with pytest.raises(InputError, match="mlls needs probabilities"):
        mlls([0, 1], [0, 1], [0, 1])
    with pytest.raises(InputError, match="variant must be 'paper' or 'code'"):
        bbse(P, [0, 1], P, variant="papre")


@given(st.integers(0, 10_000), st.sampled_from(sorted(ESTIMATORS)), st.sampled_from(["paper", "code"]))
def test_estimates_are_marginals_and_do_not_depend_on_the_order_of_rows(seed, method, variant):
    world = World(seed, n=150, n_classes=3)
    assume(np.isin(np.arange(3), world.labels).all())
    estimate = estimate_marginal(method, *world.given, variant=variant)
    assert (estimate.marginal >= 0).all()
    if estimate.method not in ("rlls-code-soft", "bbse-code-soft"):
        assert estimate.marginal.sum() == pytest.approx(1)
    assert estimate.weights * np.bincount(world.labels) / 150 == pytest.approx(estimate.marginal)
    order, target_order = (world.generator.permutation(150) for _ in range(2))
    again = estimate_marginal(
        method, world.source[order], world.labels[order], world.target[target_order], variant=variant
    )
    assert again.marginal == pytest.approx(estimate.marginal, abs=1e-6)
    renamed = np.array([2, 0, 1])  # class c becomes renamed[c]
    back = np.argsort(renamed)
    swapped = estimate_marginal(
        method, world.source[:, back], renamed[world.labels], world.target[:, back], variant=variant
    )
    assert swapped.marginal[renamed] == pytest.approx(estimate.marginal, abs=1e-6)
