from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.meters import covariate_shift
from tests.properties import share


def normal(seed, n=300, d=6, mean=0.0, deviation=1.0):
    """Normal rows; the first feature has its own mean and deviation."""
    rows = np.random.default_rng(seed).normal(size=(n, d))
    rows[:, 0] = mean + deviation * rows[:, 0]
    return rows


@pytest.fixture(scope="module")
def cdf():
    from scipy.stats import norm

    return norm.cdf


def noise(n, m):
    """Four standard deviations of the difference of two means of values in [0, 1], at most."""
    return 4 * 0.5 * np.sqrt(1 / n + 1 / m)


@pytest.mark.parametrize(("n", "m", "d"), [(60, 60, 2), (300, 150, 8), (120, 120, 300)])
def test_two_halves_of_one_distribution_have_no_shift(n, m, d):
    shift = covariate_shift(normal(1, n, d), normal(2, m, d))
    assert abs(shift.value) < noise(n, m)
    assert shift.interval.low < 0 < shift.interval.high


def test_it_grows_with_the_shift_of_a_mean_up_to_the_total_variation(cdf):
    means = (0.0, 0.5, 1.0, 2.0, 4.0)
    shift = [covariate_shift(normal(1), normal(2, mean=mean)).value for mean in means]
    assert shift == sorted(shift)
    for mean, value in zip(means, shift, strict=True):
        total_variation = 2 * cdf(mean / 2) - 1
        assert -noise(300, 300) < value < total_variation + noise(300, 300)
        # A pair of half-spaces holds the best classifier of these, so nearly all of it is shift.
        assert value > total_variation - 0.12


def test_a_change_of_variance_is_seen_by_two_half_spaces(cdf):
    source, target = normal(1, 400), normal(2, 400, deviation=3)
    edge = np.sqrt(2 * np.log(3) / (1 - 1 / 9))  # where the two densities are equal
    total_variation = 2 * (cdf(edge) - cdf(edge / 3))
    assert total_variation - 0.15 < covariate_shift(source, target).value < total_variation + noise(400, 400)


def test_a_change_of_correlation_is_seen():
    source, target = normal(1), normal(2)
    source[:, 1] += 3 * source[:, 0]
    target[:, 1] -= 3 * target[:, 0]
    # Opposite quadrants hold 1/2 + asin(r)/pi of a pair of correlation r.
    expected = 2 * np.arcsin(3 / np.sqrt(10)) / np.pi
    assert covariate_shift(source, target).value == pytest.approx(expected, abs=noise(300, 300))


@pytest.mark.slow
@share(0.2)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0]), st.sampled_from([40, 55]))
def test_swapping_changes_nothing(seed, mean, m):
    source, target = normal(seed, 40, 3), normal(seed + 1, m, 3, mean=mean)
    there, back = covariate_shift(source, target), covariate_shift(target, source)
    assert there.interval == back.interval
    assert (there.n_source, there.n_target) == (back.n_target, back.n_source) == (40, m)


def test_equal_seeds_give_equal_results():
    source, target = normal(1), normal(2, mean=1)
    before = np.random.get_state()[1].tolist()
    assert covariate_shift(source, target, seed=3) == covariate_shift(source, target, seed=3)
    assert covariate_shift(source, target, seed=3) != covariate_shift(source, target, seed=4)
    assert np.random.get_state()[1].tolist() == before


def test_constant_and_repeated_features_do_no_harm():
    source, target = normal(1, d=2), normal(2, d=2, mean=2)
    padded = [np.column_stack([rows, rows, np.ones(len(rows))]) for rows in (source, target)]
    assert covariate_shift(*padded).value == pytest.approx(covariate_shift(source, target).value, abs=0.03)
    same = np.ones((30, 2))
    assert covariate_shift(same, same).value == 0


def test_rows_of_one_origin_are_in_one_half():
    # Each origin is a point of its own with five near copies: memorising points tells the sides apart.
    generator = np.random.default_rng(0)
    points = generator.normal(size=(80, 40))
    copies = np.repeat(points, 5, axis=0) + 0.01 * generator.normal(size=(400, 40))
    names = np.repeat([f"origin-{i}" for i in range(80)], 5)
    source, target, mine, theirs = copies[:200], copies[200:], names[:200], names[200:]
    assert covariate_shift(source, target).value > 0.5
    grouped = covariate_shift(source, target, origins=(mine, theirs))
    assert abs(grouped.value) < noise(40, 40)
    assert "by origin" in grouped.interval.method
    assert grouped == covariate_shift(source, target, origins=(mine.tolist(), theirs.tolist()))


def test_a_scale_in_two_directions_is_more_than_half_spaces_find():
    source, target = (np.random.default_rng(seed).normal(size=(1000, 2)) for seed in (1, 2))
    # Scales 1 and 2 have equal densities at r^2 = 8/3 log 4; a disc of radius r holds 1 - exp(-r^2 / 2s^2).
    total_variation = 4 ** (-1 / 3) - 4 ** (-4 / 3)
    shift = covariate_shift(source, 2 * target)
    assert 0.25 < shift.value < shift.interval.high < total_variation


@pytest.mark.slow
def test_the_interval_holds_what_the_best_half_space_reaches(cdf):
    covered = 0
    for seed in range(20):
        interval = covariate_shift(normal(seed, 500, 3), normal(1000 + seed, 500, 3, mean=1)).interval
        covered += interval.low <= 2 * cdf(0.5) - 1 <= interval.high
    assert covered >= 17


def test_bad_input():
    good = normal(1, 30, 3)
    with pytest.raises(InputError, match="19 rows in a set of the target: at least 20 are needed"):
        covariate_shift(good, good[:19])
    with pytest.raises(InputError, match="source has 3 features per row and target 2"):
        covariate_shift(good, good[:, :2])
    with pytest.raises(InputError, match="source: 1 of 90 are nan or missing"):
        covariate_shift(np.where(good == good[0, 0], np.nan, good), good)
    with pytest.raises(InputError, match="target: give 2 dimensions"):
        covariate_shift(good, good[0])
    with pytest.raises(InputError, match="origins: 30 and 29 values for 30 and 30 rows"):
        covariate_shift(good, good, origins=(range(30), range(29)))
    with pytest.raises(InputError, match=r"0 rows in a half of the source: .* more origins"):
        covariate_shift(good, good, origins=(["a"] * 30, ["b"] * 30))
    with pytest.raises(InputError, match="components must be at least 1, got 0"):
        covariate_shift(good, good, components=0)
    with pytest.raises(InputError, match="penalty must be a number of at least 0, got -1"):
        covariate_shift(good, good, penalty=-1)
