"""Intervals and tests of paired differences, with scipy as oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shiftdata.evaluation.metrics.differences import holm, student_test
from shiftdata.evaluation.metrics.statistics import student, student_quantile

DRAWN = np.random.default_rng(0)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 7, 24, 101])
def test_student_is_scipys(df):
    from scipy import stats

    for t in (0.0, 0.3, 1.7, 4.0, 60.0):
        assert student(t, df) == pytest.approx(1 - 2 * stats.t.sf(t, df), abs=1e-12)
    assert student_quantile(0.95, df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-9)


@pytest.mark.parametrize("n", [2, 3, 12])
def test_interval_and_p_of_a_mean_are_scipys(n):
    from scipy import stats

    differences = DRAWN.normal(0.7, 1, n)
    theirs = stats.ttest_1samp(differences, 0)
    low, high = theirs.confidence_interval(0.95)
    assert student_test(differences) == pytest.approx((low, high, theirs.pvalue))


def test_holm_by_hand_and_without_what_is_undefined():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    adjusted = holm([0.01, math.nan, 0.02])
    assert adjusted[::2] == pytest.approx([0.02, 0.02])
    assert math.isnan(adjusted[1])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_equal_differences_have_no_interval():
    """Seeds of a method that draws nothing are no replicates."""
    assert all(map(math.isnan, student_test(np.full(5, 3.0))))
    assert all(map(math.isnan, student_test(np.array([3.0]))))
