from __future__ import annotations

import numpy as np
import pytest

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import (
    GroupAccuracy,
    Resampling,
    bootstrap_groups,
    bootstrap_rows,
    group_accuracy,
    worst_of,
)

RESULT = GroupAccuracy(np.array([0.9, 0.6, 0.75]), np.array([50, 30, 40]))


def test_equal_settings_give_equal_intervals_whatever_the_machine_holds_at_once(monkeypatch):
    first = bootstrap_groups(RESULT, "mean")
    monkeypatch.setattr("shiftdata.evaluation.metrics.bootstrap._CELLS", 7)
    assert bootstrap_groups(RESULT, "mean") == first != bootstrap_groups(RESULT, "mean", Resampling(seed=1))


def test_values_do_not_move_unseen():
    interval = bootstrap_groups(RESULT, "mean", Resampling(replicates=200))
    assert (interval.low, interval.high) == pytest.approx((0.6731666666666666, 0.8385), abs=1e-12)


@pytest.mark.parametrize("statistic", ["overall", "mean"])
def test_counts_are_drawn_as_rows_would_be(statistic):
    groups = np.repeat([0, 1, 2], [50, 30, 40])
    hits = np.concatenate(
        [np.arange(n) < round(a * n) for a, n in zip(RESULT.accuracy, RESULT.n, strict=True)]
    )

    def by_rows(rows):
        return group_accuracy(hits[rows] * 0, 1 - hits[rows], groups[rows], n_groups=3).summary(statistic)

    counts, generator = (
        bootstrap_groups(RESULT, statistic, Resampling(replicates=4_000)),
        np.random.default_rng(0),
    )
    assert counts.estimate == by_rows(np.arange(120)) == RESULT.summary(statistic)
    starts = np.repeat([0, 50, 80], RESULT.n)
    drawn = [by_rows(starts + generator.integers(0, np.repeat(RESULT.n, RESULT.n))) for _ in range(2_000)]
    assert np.quantile(drawn, [0.025, 0.975]) == pytest.approx((counts.low, counts.high), abs=0.013)


def test_one_group_is_a_binomial():
    from scipy import stats

    interval = bootstrap_groups(
        GroupAccuracy(np.array([0.7]), np.array([200])), "overall", Resampling(replicates=20_000, level=0.9)
    )
    expected = stats.binom.ppf([0.05, 0.95], 200, 0.7) / 200
    assert (interval.low, interval.high) == pytest.approx(expected, abs=0.0051)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    generator = np.random.default_rng(0)
    truth, covered = np.array([0.9, 0.7, 0.6, 0.8]), 0
    for seed in range(300):
        drawn = GroupAccuracy(generator.binomial(80, truth) / 80, np.full(4, 80))
        interval = bootstrap_groups(drawn, "mean", Resampling(seed=seed, replicates=400))
        covered += interval.low <= truth.mean() <= interval.high
    assert 0.90 <= covered / 300 <= 0.98


@pytest.mark.parametrize("truth", [[0.8] * 12, [0.3] + [0.8] * 11, list(np.linspace(0.4, 0.95, 12))], ids=str)
@pytest.mark.parametrize("m", [1, 3])
def test_intervals_of_the_worst_groups_cover_also_where_all_are_equally_hard(truth, m):
    """A bootstrap of the lowest has the truth of twelve equal groups in 1 of 200 intervals."""
    generator, worst = np.random.default_rng(3), float(np.mean(np.sort(truth)[:m]))
    ends = []
    for _ in range(300):
        drawn = GroupAccuracy(generator.binomial(42, truth) / 42, np.full(12, 42))
        interval = bootstrap_groups(drawn, worst_of(m))
        ends.append((interval.low, interval.high))
    low, high = np.array(ends).T
    assert np.mean((low <= worst) & (worst <= high)) >= 0.93
    assert np.mean(high - low) < 0.4


def test_limits_of_the_worst_group_are_wilson_s_at_the_levels_of_bonferroni():
    from scipy import stats

    found, ends = bootstrap_groups(RESULT, "worst"), {}
    for groups in (1, 3):
        limits = [
            stats.binomtest(round(p * n), n).proportion_ci(1 - 0.05 / groups, "wilson")
            for p, n in zip(RESULT.accuracy, RESULT.n, strict=True)
        ]
        ends[groups] = min(limit.low for limit in limits), min(limit.high for limit in limits)
    assert (found.low, found.high) == pytest.approx((ends[1][0], ends[3][1]), abs=1e-6)
    assert (found.replicates, found.method) == (0, "simultaneous limits of all groups")
    assert "replicates" not in str(found)


def test_clusters_are_drawn_whole():
    origins = ["dove", "gull", "dove", "wren", "gull", "dove"]

    def check(rows):
        counts = np.bincount(rows, minlength=6)
        assert counts[0] == counts[2] == counts[5]
        assert counts[1] == counts[4]
        assert counts[0] + counts[1] + counts[3] == 3
        return counts[0]

    assert bootstrap_rows(check, 6, Resampling(replicates=200), clusters=origins).high == 3


def test_an_empty_group_stays_undefined():
    result = GroupAccuracy(np.array([0.5, np.nan]), np.array([20, 0]))
    assert bootstrap_groups(result, "mean").undefined == 1000
    interval = bootstrap_groups(result, "worst")
    assert np.isnan([interval.estimate, interval.low, interval.high]).all()
    assert bootstrap_groups(result, "overall").undefined == 0
    assert bootstrap_groups(result.without_empty(), "worst").undefined == 0
    single = bootstrap_groups(GroupAccuracy(np.array([1.0]), np.array([1])), "mean")
    assert (single.low, single.high) == (1, 1)


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
