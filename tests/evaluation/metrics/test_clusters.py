"""Errors over origins, held against simulations and against computations of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.evaluation.metrics import GroupAccuracy, group_accuracy
from shiftdata.evaluation.metrics.differences import paired_test
from shiftdata.evaluation.metrics.groups import Linear


def judged(right, groups, origins, n_groups=None):
    """Rows that are right or wrong, as accuracies by group with their origins."""
    wrong = np.asarray(right) == 0
    return group_accuracy(
        np.zeros(len(wrong), int), wrong * 1, groups, n_groups=n_groups or max(groups) + 1, origins=origins
    )


def sem(values):
    return np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def mean_of(result: GroupAccuracy) -> Linear:
    return Linear(result, np.full(len(result.n), 1 / len(result.n)))


def drawn_again(generator):
    """34 origins of 3 classes, drawn 300 times with replacement, as a strong label shift draws a target."""
    of_class = np.repeat([0, 1, 2], [16, 12, 6])
    shares = np.array([0.6, 0.1, 0.3])[of_class] / np.array([16, 12, 6])[of_class]
    counts = np.random.default_rng(5).multinomial(300, shares)
    origins = np.repeat(np.arange(34), counts)
    return origins, np.zeros(300, int), (generator.random(34) < 0.6)[origins]


def styles(generator):
    """60 origins with a row in each of 8 groups, of which those of a hard origin fail together."""
    origins, groups = np.repeat(np.arange(60), 8), np.tile(np.arange(8), 60)
    hard = generator.random(60)[origins]
    return origins, groups, generator.random(480) < 0.3 + 0.6 * hard


def rows_alone(generator):
    """500 rows of as many origins in 5 groups that differ."""
    groups = np.repeat(np.arange(5), 100)
    return np.arange(500), groups, generator.random(500) < 0.5 + 0.1 * groups


@pytest.mark.parametrize("draw", [drawn_again, styles, rows_alone])
@pytest.mark.parametrize("figure", ["overall", "mean"])
def test_the_reported_error_is_the_spread_over_models_and_its_interval_covers(draw, figure):
    generator = np.random.default_rng(0)
    values, errors, ends = [], [], []
    for _ in range(300):
        origins, groups, right = draw(generator)
        mean = mean_of(judged(right, groups if figure == "mean" else groups * 0, origins))
        values.append(mean.groups.mean)
        errors.append(mean.sem)
        ends.append(mean.interval(values[-1]))
    assert np.sqrt(np.mean(np.square(errors))) / np.std(values) == pytest.approx(1, abs=0.12)
    truth = {"drawn_again": 0.6, "styles": 0.6, "rows_alone": 0.7}[draw.__name__]
    assert np.mean([low <= truth <= high for low, high in ends]) >= 0.9


@pytest.mark.parametrize("draw", [drawn_again, styles, rows_alone])
def test_intervals_of_groups_cover(draw):
    generator, within = np.random.default_rng(1), []
    for _ in range(100):
        origins, groups, right = draw(generator)
        first = groups == 0
        low, high = judged(right[first], groups[first], origins[first]).intervals()[0]
        within.append(low <= (0.5 if draw is rows_alone else 0.6) <= high)
    assert np.mean(within) >= 0.9


def test_the_interval_of_a_figure_fits_its_kind():
    origins, groups, right = rows_alone(np.random.default_rng(4))
    result = judged(right, groups, origins)
    worst = Linear(result, np.eye(5)[result.accuracy.argmin()], worst=1)
    assert worst.interval(result.worst) == result.worst_interval()
    difference = Linear(result, np.array([1.0, -1, 0, 0, 0]))
    half = difference.reach * difference.sem
    assert difference.interval(0.1) == pytest.approx((0.1 - half, 0.1 + half))
    sure = judged(np.ones(40, int), np.arange(40) % 4, np.arange(40))
    low, high = mean_of(sure).interval(1.0)
    assert low < 0.95 < high == 1
    assert np.isnan(mean_of(judged(right, groups, origins, 6)).interval(math.nan)).all()


def test_errors_of_means_add_up_origins_and_not_groups():
    """Where all styles of an origin are right or wrong together, eight styles say no more than one."""
    generator = np.random.default_rng(2)
    right = np.repeat(generator.random(50) < 0.7, 8)
    origins, groups = np.repeat(np.arange(50), 8), np.tile(np.arange(8), 50)
    result = judged(right, groups, origins)
    assert mean_of(result).sem == pytest.approx(result.sem[0])
    assert mean_of(result).sem == pytest.approx(sem(right[::8]))
    independent = judged(right, groups, np.arange(400))
    assert mean_of(independent).sem == pytest.approx(result.sem[0] / math.sqrt(8))
    assert mean_of(result).origins == 50


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 60))
def test_rows_of_their_own_origin_have_the_error_of_a_binomial_in_any_form(seed, n_groups, rows):
    generator = np.random.default_rng(seed)
    groups, right = generator.integers(0, n_groups, rows), generator.random(rows) < 0.6
    plain = judged(right, groups, np.arange(rows), n_groups)
    alone = group_accuracy(right, np.ones(rows, int), groups, n_groups=n_groups)
    by_group = np.array([sem(right[groups == group]) for group in range(n_groups)])
    for result in (plain, alone):
        assert result.sem == pytest.approx(by_group, nan_ok=True)
        assert (result.origins == result.n).all()
    # The general formula, which rows of their own origin need not take, gives the same.
    assert plain.clusters.sem == pytest.approx(by_group, nan_ok=True)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=10))
def test_the_paired_test_tries_every_sign(differences):
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(differences))).reshape(len(differences), -1)
    sums = np.abs(np.array(differences) @ signs)
    assert paired_test(differences) == pytest.approx(np.mean(sums >= abs(sum(differences))))


@given(st.integers(0, 60), st.integers(0, 60))
def test_of_single_rows_the_paired_test_is_mcnemars(first, second):
    from scipy import stats

    expected = stats.binomtest(first, first + second).pvalue if first + second else 1
    assert paired_test([1] * first + [0, 0] + [-1] * second) == pytest.approx(expected, rel=1e-9)


def test_beyond_exact_sums_the_paired_test_goes_on_smoothly(monkeypatch):
    differences = np.random.default_rng(5).integers(-3, 4, 4000)
    differences[:90] = 2
    exact = paired_test(differences)
    monkeypatch.setattr("shiftdata.evaluation.metrics.differences.EXACT_ROWS", 10)
    assert paired_test(differences) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("rows", [1, 3])
def test_classes_of_a_single_origin_have_a_part_in_the_error_of_the_mean(rows):
    """12 classes of which 5 have one origin, with one or three rows each."""
    origin_class = np.repeat(np.arange(12), [1] * 5 + [9] * 7)
    origins = np.repeat(np.arange(len(origin_class)), rows)
    generator, values, errors = np.random.default_rng(6), [], []
    for _ in range(400):
        right = (generator.random(len(origin_class)) < 0.7)[origins]
        mean = mean_of(judged(right, origin_class[origins], origins))
        values.append(mean.groups.mean)
        errors.append(mean.sem)
    assert np.sqrt(np.mean(np.square(errors))) / np.std(values) == pytest.approx(1, abs=0.12)


def test_origins_of_one_group_leave_its_error_open():
    result = judged([1, 0, 1, 1], [0, 0, 1, 1], list("aabc"))
    assert math.isnan(result.sem[0])
    assert result.sem[1] == 0
    assert mean_of(result).sem == pytest.approx(0.5 * (0.75 - 0.5))  # from the accuracy of all rows
    assert result.intervals()[0] == pytest.approx((0, 1), abs=0.01)
    assert "origins" in str(result)
    assert "origins" not in str(judged([1, 0, 1, 1], [0, 0, 1, 1], list("abcd")))
