from __future__ import annotations

import json

import numpy as np
import pytest

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import compare, group_accuracy, worst_of


@pytest.fixture
def rows():
    generator = np.random.default_rng(3)
    labels, groups = generator.integers(0, 4, 900), generator.integers(0, 5, 900)
    a = np.where(generator.random(900) < 0.85, labels, (labels + 1) % 4)
    b = np.where(generator.random(900) < 0.10, (a + 1) % 4, a)  # mostly the same errors
    return labels, a, b, groups


@pytest.mark.parametrize("statistic", ["overall", "mean", "worst", worst_of(2)])
def test_figures_are_those_of_each_method_alone(rows, statistic):
    labels, a, b, groups = rows
    result = compare(labels, a, b, groups=groups, n_groups=5, statistic=statistic)
    assert result.a == group_accuracy(labels, a, groups, n_groups=5).summary(statistic)
    assert result.b == group_accuracy(labels, b, groups, n_groups=5).summary(statistic)
    assert result.difference.estimate == result.a - result.b
    assert result.difference.low <= result.difference.estimate <= result.difference.high
    assert result.only_a == ((a == labels) & (b != labels)).sum()
    assert result.only_b == ((a != labels) & (b == labels)).sum()


def test_pairing_narrows_the_interval(rows):
    labels, a, b, _ = rows
    paired = compare(labels, a, b).difference
    hits_a, hits_b = a == labels, b == labels
    alone = np.sqrt(hits_a.var() / 900 + hits_b.var() / 900)
    together = np.std(hits_a.astype(float) - hits_b) / 30
    assert (paired.high - paired.low) / (2 * 1.96) == pytest.approx(together, rel=0.08)
    assert together < 0.8 * alone


def test_the_difference_of_worst_groups_is_covered_where_one_method_has_many_equal_groups():
    generator, groups = np.random.default_rng(2), np.repeat(np.arange(12), 42)
    truth = np.full(12, 0.8), np.r_[0.5, np.full(11, 0.85)]
    labels, covered = np.zeros(len(groups), int), 0
    for _ in range(200):
        a, b = ((generator.random(len(groups)) > of[groups]).astype(int) for of in truth)
        found = compare(labels, a, b, groups=groups, n_groups=12, statistic="worst").difference
        covered += found.low <= truth[0].min() - truth[1].min() <= found.high
    assert covered >= 0.85 * 200  # .905 in 800; of a bootstrap .55


def test_a_last_group_without_rows_leaves_no_figure():
    result = compare([0, 0], [0, 1], [0, 0], groups=[0, 1], n_groups=3, statistic="worst")
    assert np.isnan([result.a, result.b, result.difference.low]).all()
    assert compare([0, 0], [0, 1], [0, 0], groups=[0, 1], n_groups=2, statistic="worst").b == 1


def test_it_repeats_and_says_how_rows_were_drawn(rows):
    labels, a, b, groups = rows
    assert compare(labels, a, b) == compare(labels, a, b)
    grouped = compare(labels, a, b, groups=groups, n_groups=5)
    methods = [result.difference.method for result in (compare(labels, a, b), grouped)]
    assert methods == ["percentile, by row", "percentile, stratified by group"]
    assert json.loads(json.dumps(grouped.to_dict()))["difference"]["method"] == methods[1]
    assert "A - B" in str(grouped)


def test_bad_input(rows):
    labels, a, b, groups = rows
    with pytest.raises(InputError, match="lengths differ: labels 900, b 899"):
        compare(labels, a, b[1:])
    with pytest.raises(InputError, match="groups together with n_groups"):
        compare(labels, a, b, groups=groups)
    with pytest.raises(InputError, match=r"predictions of B: .* are too large"):
        compare(labels, a, b + 1, n_classes=4)
    with pytest.raises(InputError, match="lengths differ: labels 900, groups 899"):
        compare(labels, a, b, groups=groups[1:], n_groups=5)
    with pytest.raises(InputError, match="predictions of B: 1 of 900 are nan"):
        compare(labels, a, np.where(np.arange(900) == 5, np.nan, b))
