from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import GroupAccuracy, worst_by_chance


@pytest.mark.parametrize(("n", "p", "groups"), [(40, 0.9, 400), (1, 0.3, 2), (250, 0.5, 64), (30, 0.999, 9)])
def test_it_is_the_minimum_of_binomials(n, p, groups):
    from scipy import stats

    above = stats.binom.sf(np.arange(-1, n + 1), n, p) ** groups  # P(min > k), from k = -1 on
    result = worst_by_chance([n] * groups, p)
    assert result.probability == pytest.approx(-np.diff(above), abs=1e-12)
    assert result.expected == pytest.approx(above[1:].sum() / n)  # the sum of P(min > k) is the mean


def test_unequal_groups_by_enumeration():
    from scipy import stats

    sizes, p = [2, 3, 3, 5], 0.7
    expected = 0.0
    for correct in product(*(range(size + 1) for size in sizes)):
        mass = np.prod([stats.binom.pmf(k, size, p) for k, size in zip(correct, sizes, strict=True)])
        lowest = min(k / size for k, size in zip(correct, sizes, strict=True))
        expected += mass * lowest
    assert worst_by_chance(sizes, p).expected == pytest.approx(expected)


@given(st.integers(1, 60), st.floats(0, 1), st.integers(1, 50))
def test_one_group_is_unbiased_and_more_groups_fall_lower(n, p, groups):
    assert worst_by_chance([n], p).expected == pytest.approx(p)
    fewer, more = (worst_by_chance([n] * g, p) for g in (groups, groups + 1))
    assert more.expected <= fewer.expected + 1e-12
    assert fewer.probability.sum() == pytest.approx(1)
    assert (fewer.probability > -1e-12).all()


@pytest.mark.parametrize("p", [0, 1])
def test_certain_groups_are_certain(p):
    assert worst_by_chance([3, 7], p).expected == p


def test_large_groups_neither_overflow_nor_vanish():
    result = worst_by_chance([600_000] * 4_800, 0.9)
    normal = 0.9 - np.sqrt(0.09 / 600_000) * 3.6
    assert result.expected == pytest.approx(normal, abs=1e-4)
    assert result.probability.sum() == pytest.approx(1)


def test_a_worst_group_can_be_judged():
    even = GroupAccuracy(np.array([0.75, 0.9, 0.85, 0.9]), np.array([20, 20, 20, 20]))
    chance = even.worst_by_chance()
    assert chance.at_most(even.worst) > 0.2  # as low a worst group is no surprise
    uneven = GroupAccuracy(np.array([0.4, 1.0, 1.0, 1.0, np.nan]), np.array([20, 20, 20, 20, 0]))
    assert uneven.worst_by_chance().at_most(uneven.without_empty().worst) < 1e-3


@pytest.mark.parametrize(
    ("n", "p", "message"),
    [
        ([10], 1.2, "accuracy must be between 0 and 1, got 1.2"),
        ([10, 0], 0.5, "1 groups are empty and have no accuracy"),
        ([-1], 0.5, "n: 1 of 1 are negative"),
    ],
)
def test_bad_input(n, p, message):
    with pytest.raises(InputError, match=message):
        worst_by_chance(n, p)
