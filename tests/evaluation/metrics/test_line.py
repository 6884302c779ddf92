"""Accuracy and agreement on the line, against scipy, closed forms and the authors' formulas as loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special, stats

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.bootstrap import Resampling
from shiftdata.evaluation.metrics.line import AXES, Point, accuracy_line, agreement_line

CLEAN = np.array([0.55, 0.64, 0.71, 0.78, 0.83, 0.9, 0.94])
SHIFTED = np.array([0.31, 0.42, 0.44, 0.55, 0.6, 0.72, 0.75])


def points(clean=CLEAN, shifted=SHIFTED, n=10_000, family=""):
    pairs = zip(clean, shifted, strict=True)
    return [Point(f"m{place}", x, y, n, n, family) for place, (x, y) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("axes", "there", "back"),
    [
        ("probit", stats.norm.ppf, stats.norm.cdf),
        ("logit", special.logit, special.expit),
        ("linear", np.asarray, np.asarray),
    ],
)
def test_the_fit_is_that_of_scipy_in_the_axes(axes, there, back):
    line = accuracy_line(points(), axes=axes)
    fit = stats.linregress(there(CLEAN), there(SHIFTED))
    assert line.slope.estimate == pytest.approx(fit.slope, abs=1e-9)
    assert line.intercept.estimate == pytest.approx(fit.intercept, abs=1e-9)
    assert line.r2 == pytest.approx(fit.rvalue**2, abs=1e-9)
    expected = back(fit.slope * there(CLEAN) + fit.intercept)
    assert np.allclose(line.expected, expected, atol=1e-9, rtol=0)
    assert np.allclose([of.estimate for of in line.robustness], SHIFTED - expected, atol=1e-9, rtol=0)
    assert np.allclose(line(CLEAN), expected, atol=1e-9, rtol=0)


def test_a_model_above_the_line_of_the_others_is_measured_by_their_line_alone():
    forward, back = AXES["probit"]
    standard = points(CLEAN, back(0.9 * forward(CLEAN) - 0.5), family="standard")
    clip = Point("clip", 0.7, float(back(0.9 * forward(0.7) - 0.5)) + 0.1, 10_000, 10_000, "clip")
    line = accuracy_line([*standard, clip], families=["standard"])
    assert (line.slope.estimate, line.intercept.estimate) == pytest.approx((0.9, -0.5))
    assert line.robustness[-1].estimate == pytest.approx(0.1)
    assert line.robustness[-1].low > 0.05
    assert all(of.low < 0 < of.high for of in line.robustness[:-1])
    assert line.table().blocks[0].body[0][0] == "clip (not in the fit)"
    assert accuracy_line([*standard, clip]).robustness[-1].estimate < 0.1


def test_intervals_have_the_rows_of_a_model_and_the_choice_of_models():
    def width(n, models):
        chosen = [0, 3, 6] if models == 3 else list(range(7))
        line = accuracy_line(points(CLEAN[chosen], SHIFTED[chosen], n))
        return line.robustness[0].high - line.robustness[0].low, line.slope.high - line.slope.low

    assert width(100, 7)[0] > 2 * width(100_000, 7)[0]
    assert width(10**9, 7)[0] > 0.005  # what is left is the choice of models
    assert accuracy_line(points()).slope == accuracy_line(points()).slope
    assert accuracy_line(points(), resampling=Resampling(seed=1)).slope != accuracy_line(points()).slope


def test_the_interval_of_a_model_on_few_rows_is_jeffreys():
    standard = points(CLEAN, 0.9 * CLEAN - 0.2, n=10**9, family="standard")
    few = Point("few", 0.8, 0.05, 10**9, 40, "few")
    size = Point("size", 0.8, 0.05, 10**9, 4000, "few", effective=(10**9, 40))  # as uncertain as 40 rows
    line = accuracy_line([*standard, few, size], axes="linear", families=["standard"])
    ends = stats.beta.ppf([0.025, 0.975], 2.5, 38.5) - 0.52
    for above in line.robustness[-2:]:
        assert (above.low, above.high) == pytest.approx(tuple(ends), abs=0.01)


def test_the_interval_of_the_slope_covers_the_truth_about_as_often_as_it_says():
    generator, covered = np.random.default_rng(0), 0
    for _ in range(60):
        x = generator.uniform(0.5, 0.9, 25)
        made = points(x, 0.7 * x + 0.1 + generator.normal(0, 0.02, 25), n=10**8)
        line = accuracy_line(made, axes="linear", resampling=Resampling(replicates=300))
        covered += line.slope.low <= 0.7 <= line.slope.high
    assert covered >= 51


def test_accuracies_of_0_and_1_are_half_a_row_from_there():
    made = [
        Point.of("a", (10, 10), (0, 20)),
        Point.of("b", (8, 10), (5, 20)),
        Point.of("c", (5, 10), (4, 20)),
    ]
    line, same = accuracy_line(made), accuracy_line(points([0.95, 0.8, 0.5], [0.025, 0.25, 0.2], n=20))
    assert line.slope.estimate == pytest.approx(same.slope.estimate)
    assert line.robustness[0].estimate == pytest.approx(0 - line.expected[0])  # of the accuracy itself
    assert "half a row" in line.table().text()
    assert "half a row" not in same.table().text()


def test_points_come_from_hits_or_counts():
    hits = np.array([1, 1, 0, 1])
    assert Point.of("m", hits, hits == 1) == Point.of("m", (3, 4), (3, 4))
    for wrong in ((5, 4), (1, 0), (1, 2, 3), [0, 2], []):
        with pytest.raises(InputError):
            Point.of("m", wrong, hits)


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(InputError, match=r"at least 3 models .* got 2"):
        accuracy_line(points()[:2])
    with pytest.raises(InputError, match="different clean accuracy"):
        accuracy_line(points([0.5] * 7))
    with pytest.raises(InputError, match="got 0"):
        accuracy_line(points(), families=["none"])
    with pytest.raises(InputError, match="axes"):
        accuracy_line(points(), axes="log")


def simulated(models=12, n=4000, classes=10, seed=0):
    """Predictions of models of which the better are right more often, all fooled by the same hard rows."""
    generator = np.random.default_rng(seed)
    sides = []
    for drop in (0.0, 0.7):
        true, hard = generator.integers(0, classes, n), generator.normal(size=n)
        skill = np.linspace(0.2, 1.6, models)[:, None] - drop
        right = skill > 0.7 * hard + 0.7 * generator.normal(size=(models, n))
        sides.append((np.where(right, true, generator.integers(0, classes, (models, n))), true))
    return sides


def test_agreement_estimates_are_those_of_the_authors_formulas():
    (clean, y), (shifted, y_shifted) = simulated()
    accuracy, truth = (clean == y).mean(1), (shifted == y_shifted).mean(1)
    result = agreement_line(clean, shifted, accuracy, true=truth)
    # Baek et al. (2022), section 4, equations as loops.
    z, pairs = stats.norm.ppf, list(itertools.combinations(range(len(clean)), 2))
    agree, agree_shifted = ([z((of[i] == of[j]).mean()) for i, j in pairs] for of in (clean, shifted))
    fit = stats.linregress(agree, agree_shifted)
    assert (result.slope, result.intercept) == pytest.approx((fit.slope, fit.intercept), abs=1e-9)
    assert result.r2 == pytest.approx(fit.rvalue**2, abs=1e-9)
    assert np.allclose(result.aline_s, stats.norm.cdf(fit.slope * z(accuracy) + fit.intercept), atol=1e-9)
    matrix, target = np.zeros((len(pairs), len(clean))), []
    for row, (i, j) in enumerate(pairs):
        matrix[row, [i, j]] = 0.5
        target.append(agree_shifted[row] + fit.slope * ((z(accuracy[i]) + z(accuracy[j])) / 2 - agree[row]))
    solved = np.linalg.solve(matrix.T @ matrix, matrix.T @ np.array(target))
    assert np.allclose(result.aline_d, stats.norm.cdf(solved), atol=1e-9)
    errors = [np.abs(of - truth).mean() for of in (result.aline_s, result.aline_d)]
    assert result.errors == pytest.approx(errors)
    assert max(errors) < 0.03 < np.abs(accuracy - truth).mean()


def test_estimates_change_with_no_label_of_shifted_rows():
    (clean, y), (shifted, truth) = simulated()
    accuracy = (clean == y).mean(1)
    renamed = agreement_line(clean + 3, 100 - shifted, accuracy, true=(shifted == truth).mean(1))
    plain = agreement_line(clean, shifted, accuracy)
    assert (renamed.aline_s == plain.aline_s).all()
    assert (renamed.aline_d == plain.aline_d).all()
    assert plain.table().blocks[0].header[-1] == "ALine-D"


def test_agreement_that_is_no_line_is_called_so():
    generator = np.random.default_rng(1)
    clean, shifted = generator.integers(0, 3, (5, 200)), generator.integers(0, 3, (5, 200))
    result = agreement_line(clean, shifted, [0.3, 0.4, 0.5, 0.6, 0.7])
    assert result.r2 < 0.95
    assert "not to be trusted" in result.table().text()
    with pytest.raises(InputError, match="at least 3 models"):
        agreement_line(clean[:2], shifted[:2], [0.3, 0.4])
    with pytest.raises(InputError, match="models that differ"):
        agreement_line(np.ones((3, 9)), np.ones((3, 9)), [0.3, 0.4, 0.5])
    with pytest.raises(InputError):
        agreement_line(clean, shifted[:4], [0.3, 0.4, 0.5, 0.6, 0.7])


def test_the_picture_has_each_model_and_is_the_same_twice():
    mixed = points()[:4] + points(CLEAN[4:], SHIFTED[4:], family="wide")
    line = accuracy_line(mixed)
    (axes,) = line.figure().axes
    shown = np.concatenate([container[0].get_xydata() for container in axes.containers])
    assert np.allclose(shown, np.column_stack([CLEAN, SHIFTED]))
    drawn, again = line.picture("CIFAR-10", "CIFAR-10.1"), line.picture("CIFAR-10", "CIFAR-10.1")
    assert drawn.tobytes() == again.tobytes()
