"""Intervals: of the worst groups, and of any function of rows by bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import GroupAccuracy, Resampling, bootstrap_rows

RESULT = GroupAccuracy(np.array([0.9, 0.6, 0.75]), np.array([50, 30, 40]))


@pytest.mark.parametrize("truth", [[0.8] * 12, [0.3] + [0.8] * 11, list(np.linspace(0.4, 0.95, 12))], ids=str)
@pytest.mark.parametrize("m", [1, 3])
def test_intervals_of_the_worst_groups_cover_also_where_all_are_equally_hard(truth, m):
    """A bootstrap of the lowest has the truth of twelve equal groups in 1 of 200 intervals."""
    generator, worst = np.random.default_rng(3), float(np.mean(np.sort(truth)[:m]))
    drawn = [GroupAccuracy(generator.binomial(42, truth) / 42, np.full(12, 42)) for _ in range(300)]
    low, high = np.array([accuracies.worst_interval(m) for accuracies in drawn]).T
    assert np.mean((low <= worst) & (worst <= high)) >= 0.93
    assert np.mean(high - low) < 0.4


def test_limits_of_the_worst_group_are_wilson_s_at_the_levels_of_bonferroni():
    from scipy import stats

    ends = {}
    for groups in (1, 3):
        limits = [
            stats.binomtest(round(p * n), n).proportion_ci(1 - 0.05 / groups, "wilson")
            for p, n in zip(RESULT.accuracy, RESULT.n, strict=True)
        ]
        ends[groups] = min(limit.low for limit in limits), min(limit.high for limit in limits)
    assert RESULT.worst_interval() == pytest.approx((ends[1][0], ends[3][1]), abs=1e-6)
    assert np.isnan(GroupAccuracy(np.array([0.5, np.nan]), np.array([20, 0])).worst_interval()).all()


def test_equal_settings_give_equal_intervals_that_cover_as_often_as_they_say():
    generator, covered = np.random.default_rng(0), 0
    for seed in range(200):
        hits = generator.random(80) < 0.7
        interval = bootstrap_rows(
            lambda rows, hits=hits: hits[rows].mean(), 80, Resampling(seed=seed, replicates=200)
        )
        covered += interval.low <= 0.7 <= interval.high
    assert 0.88 <= covered / 200 <= 0.98
    values = generator.random(80)
    again = [
        bootstrap_rows(lambda rows: values[rows].mean(), 80, Resampling(seed=seed)) for seed in (1, 1, 2)
    ]
    assert again[0] == again[1] != again[2]


def test_clusters_are_drawn_whole():
    origins = ["dove", "gull", "dove", "wren", "gull", "dove"]

    def check(rows):
        counts = np.bincount(rows, minlength=6)
        assert counts[0] == counts[2] == counts[5]
        assert counts[1] == counts[4]
        assert counts[0] + counts[1] + counts[3] == 3
        return counts[0]

    assert bootstrap_rows(check, 6, Resampling(replicates=200), clusters=origins).high == 3


def test_bad_input():
    for bad, message in (
        ({"replicates": 0}, "replicates must be at least 1"),
        ({"level": 1.0}, "level must be between 0 and 1"),
        ({"level": 95}, "level must be between 0 and 1"),
    ):
        with pytest.raises(InputError, match=message):
            Resampling(**bad)
    with pytest.raises(InputError, match="n_rows must be at least 1"):
        bootstrap_rows(np.mean, 0)
    with pytest.raises(InputError, match="clusters: 3 names for 2 rows"):
        bootstrap_rows(np.mean, 2, clusters=[0, 1, 1])
