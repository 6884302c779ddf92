from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import (
    GroupAccuracy,
    group_accuracy,
)
from shiftdata.evaluation.metrics.statistics import spread


def of(accuracy, n=None):
    accuracy = np.array(accuracy, dtype=np.float64)
    return GroupAccuracy(accuracy, np.full(len(accuracy), 100) if n is None else np.array(n))


rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=80)


@given(rows)
def test_it_is_the_accuracy_of_the_rows_of_each_group(rows):
    labels, predictions, groups = np.array(rows).T
    result = group_accuracy(labels, predictions, groups, n_groups=8)
    for group in range(8):
        own = groups == group
        assert result.n[group] == own.sum()
        if own.any():
            assert result.accuracy[group] == np.mean(labels[own] == predictions[own])
        else:
            assert np.isnan(result.accuracy[group])
    assert result.overall == pytest.approx(np.mean(labels == predictions))
    rest = result.without_empty()
    assert rest.worst == np.nanmin(result.accuracy)
    assert rest.mean == pytest.approx(np.nanmean(result.accuracy))
    assert rest.overall == result.overall
    assert sorted((*rest.names, *result.empty)) == list(range(8))


def test_mean_over_labels_is_balanced_accuracy():
    from sklearn.metrics import balanced_accuracy_score

    generator = np.random.default_rng(0)
    labels, predictions = generator.integers(0, 6, 500), generator.integers(0, 6, 500)
    result = group_accuracy(labels, predictions, labels, n_groups=6)
    assert result.mean == pytest.approx(balanced_accuracy_score(labels, predictions))


def test_the_worst_groups_are_averaged():
    result = of([0.9, 0.2, 0.6, 0.4, 0.8])
    assert result.worst == result.worst_of(1) == 0.2
    assert result.worst_group == 1
    assert result.worst_of(3) == pytest.approx(0.4)
    assert result.worst_of(5) == pytest.approx(result.mean)
    for wrong in (0, 6):
        with pytest.raises(InputError, match=f"m={wrong} of the worst groups: give 1 to .* groups, 5"):
            result.worst_of(wrong)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30))
def test_top_m_grows_with_m_between_worst_and_mean(counts):
    result = of([count / 100 for count in counts])
    series = [result.worst_of(m) for m in range(1, len(counts) + 1)]
    assert series == pytest.approx(sorted(series))
    assert series[0] == result.worst
    assert series[-1] == pytest.approx(result.mean)


def test_an_empty_group_is_never_dropped_silently():
    result = group_accuracy([0, 1, 1], [0, 1, 0], [0, 2, 2], n_groups=4)
    assert result.n.tolist() == [1, 0, 2, 0]
    assert result.empty == (1, 3)
    undefined = [result.mean, result.worst, result.worst_of(1), result.worst_of(2), result.std]
    assert np.isnan(undefined).all()
    assert result.worst_group is None
    assert result.overall == 2 / 3
    assert "2 groups are empty: mean, worst and std are undefined; see without_empty()" in str(result)
    rest = result.without_empty()
    assert (rest.worst, rest.worst_group, rest.mean) == (0.5, 2, 0.75)
    assert "empty" not in str(rest)
    assert str(rest).splitlines()[2:] == ["0        1.0000       -  1", "2        0.5000  0.5000  2"]


# Accuracies of target domains, Avg. and Std of rows of NICO++'s tables 2 and 5.
NICO_ROWS = [
    ([82.71, 81.92, 76.15, 77.20], 79.50, 2.86),
    ([82.95, 80.33, 79.16, 77.58], 80.00, 1.96),
    ([72.27, 71.64, 63.89, 65.97], 68.44, 3.60),
]


@pytest.mark.parametrize(("accuracies", "average", "printed"), NICO_ROWS)
def test_nico_prints_the_population_std_and_defines_the_sample_one(accuracies, average, printed):
    result = of(np.array(accuracies) / 100)
    assert 100 * result.mean == pytest.approx(average, abs=0.011)
    assert 100 * spread(result.accuracy, ddof=0) == pytest.approx(printed, abs=0.011)
    assert result.std == pytest.approx(np.std(result.accuracy, ddof=1))


def test_sem_is_that_of_the_rows():
    labels, groups = np.zeros(9, dtype=int), [0] * 7 + [1, 2]
    predictions = np.array([0, 0, 1, 0, 1, 1, 0, 0, 1])
    result = group_accuracy(labels, predictions, groups, n_groups=4)
    hits = (predictions[:7] == 0).astype(float)
    assert result.sem[0] == pytest.approx(np.std(hits, ddof=1) / np.sqrt(7))
    assert np.isnan(result.sem[1:]).all()


def test_groups_are_shown_by_name_with_their_rows():
    named = replace(of([0.9, np.nan, 0.5], [1_000, 0, 10]), names=("dove / ink", "dove / oil", "gull / ink"))
    assert str(named).splitlines()[2:] == [
        "group       accuracy     sem      n",
        "dove / ink    0.9000  0.0095  1,000",
        "dove / oil         -       -      0",
        "gull / ink    0.5000  0.1667     10",
    ]
    assert named.empty == ("dove / oil",)
    assert named.worst_group is None
    assert named.without_empty().worst_group == "gull / ink"
    assert str(of([0.5, 0.7])).startswith(
        "overall 0.6000, mean 0.6000, worst 0.5000, std 0.1414 over 2 groups"
    )


def test_of_many_groups_the_worst_are_shown_empty_ones_first():
    many = str(of([*np.linspace(1, 0.5, 30), np.nan], [9] * 30 + [0])).splitlines()
    assert many[2] == "the 20 worst of them:"
    assert [line.split()[0] for line in many[4:]] == ["30", *map(str, range(29, 10, -1))]


def test_correct_rows_are_counted_back_exactly():
    n = np.arange(1, 2_000)
    correct = n * 2 // 3
    assert (GroupAccuracy(correct / n, n).correct == correct).all()
