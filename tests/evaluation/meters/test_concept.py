from __future__ import annotations

import numpy as np
import pytest

from shiftdata.errors import InputError
from shiftdata.evaluation.meters import concept_shift_on_features, covariate_shift
from shiftdata.evaluation.meters.concept import share
from shiftdata.evaluation.metrics.statistics import wilson

NAMES = np.array(["ant", "bee", "cat", "dog"])


def labelled(seed, n=400, k=4, move=0.0):
    """Rows of k well separated classes, all moved along one more feature."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(k, size=n)
    centres = 4 * np.random.default_rng(99).normal(size=(k, 8))
    return np.column_stack([centres[codes] + generator.normal(size=(n, 8)), np.full(n, move)]), codes


def test_one_labelling_has_no_concept_shift_with_or_without_covariate_shift():
    for move in (0.0, 5.0):
        (source, y), (target, z) = labelled(1), labelled(2, move=move)
        shift = concept_shift_on_features(source, y, target, z)
        assert shift.maximum.estimate < 0.05
        assert shift.floor < 0.05
    assert covariate_shift(source, target).value == 1


def test_permuted_labels_are_a_concept_shift_alone():
    (source, y), (target, z) = labelled(1), labelled(2)
    shuffled = concept_shift_on_features(source, y, target, np.random.default_rng(0).permutation(z))
    assert shuffled.minimum.estimate == pytest.approx(3 / 4, abs=0.1)
    assert shuffled.maximum.estimate == pytest.approx(3 / 4, abs=0.1)
    renamed = concept_shift_on_features(source, NAMES[y], target, NAMES[(z + 1) % 4])
    assert renamed.minimum.estimate > 0.95
    assert renamed.minimum.low > renamed.floor
    assert abs(covariate_shift(source, target).value) < 0.1


def test_half_of_the_rows_labelled_otherwise():
    (source, y), (target, z) = labelled(1, 600), labelled(2, 600)
    shift = concept_shift_on_features(source, y, target, np.where(z < 2, 1 - z, z))
    share = np.mean(y < 2), np.mean(z < 2)
    both = shift.on_source.estimate, shift.on_target.estimate
    assert both == pytest.approx(share, abs=0.04)
    assert (shift.minimum.estimate, shift.maximum.estimate) == (min(both), max(both))


def test_the_floor_is_what_two_fits_of_one_side_give():
    # Many features for few rows: the fits themselves disagree, and the interval holds what there is: nothing.
    generator = np.random.default_rng(0)
    source, target = generator.normal(size=(2, 120, 60))
    y, z = ((rows[:, 0] > 0).astype(int) for rows in (source, target))
    shift = concept_shift_on_features(source, y, target, z)
    assert shift.floor > 0.1
    assert shift.minimum.low == shift.maximum.low == 0


def test_origins_stay_together():
    # Five near copies of each of 80 points with a label of its own: fits that share points would agree.
    generator = np.random.default_rng(0)
    points, labels = generator.normal(size=(80, 40)), generator.integers(2, size=80)
    rows = np.repeat(points, 5, axis=0) + 0.01 * generator.normal(size=(400, 40))
    names, codes = np.repeat(np.arange(80), 5), np.repeat(labels, 5)
    shift = concept_shift_on_features(
        rows[:200], codes[:200], rows[200:], codes[200:], origins=(names[:200], names[200:])
    )
    assert shift.floor > 0.3
    assert shift.minimum.method == "grouped jackknife, by origin"


def turned(seed, share, n=600, density=False):
    """Half-planes, turned until a share of normal rows has another label."""
    source, target = np.random.default_rng(seed).normal(size=(2, n, 6))
    target[:, 0] += density
    angle = np.pi * share
    return source, source[:, 0] > 0, target, target[:, :2] @ [np.cos(angle), np.sin(angle)] > 0


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("share", [0.1, pytest.param(0.5, marks=pytest.mark.slow), 1.0])
def test_turned_half_planes(share, density):
    rows, _, moved, _ = turned(0, share, 400_000, density)
    truth = [
        np.mean((x[:, 0] > 0) != (x[:, :2] @ [np.cos(np.pi * share), np.sin(np.pi * share)] > 0))
        for x in (rows, moved)
    ]
    assert truth[0] == pytest.approx(share, abs=0.003)
    shift = concept_shift_on_features(*turned(1, share, density=density))
    for interval, true in ((shift.on_source, truth[0]), (shift.on_target, truth[1])):
        assert interval.low <= true <= interval.high
        assert interval.estimate == pytest.approx(true, abs=0.05)
        assert interval.high - interval.low < 0.15


@pytest.mark.slow
def test_intervals_hold_the_truth_where_labels_have_noise_and_fits_few_rows():
    covered = 0
    for seed in range(20):
        source, y, target, z = turned(seed, 0.1, 500)
        flip = np.random.default_rng(seed + 1000).random((2, 500)) < 0.1
        shift = concept_shift_on_features(source, y ^ flip[0], target, z ^ flip[1])
        covered += shift.on_source.low <= 0.1 <= shift.on_source.high
    assert covered >= 17


def test_only_shared_labels_count():
    (source, y), (target, z) = labelled(1), labelled(2)
    shift = concept_shift_on_features(source[y != 3], NAMES[y[y != 3]], target[z != 0], NAMES[z[z != 0]])
    assert shift.labels == ("bee", "cat")
    assert shift.left_out == (y == 0).sum() + (z == 3).sum()
    assert (shift.n_source, shift.n_target) == (np.isin(y, [1, 2]).sum(), np.isin(z, [1, 2]).sum())
    assert shift.maximum.estimate < 0.05
    with pytest.raises(InputError, match="1 labels are on both sides, at least 2"):
        concept_shift_on_features(
            source[y < 2], y[y < 2], target[z > 0][z[z > 0] != 2], z[z > 0][z[z > 0] != 2]
        )


def test_a_share_has_wilsons_interval_and_origins_widen_it():
    differ, everywhere = np.repeat([0, 1] * 10, 10), np.ones(200, bool)
    alone = share(differ, everywhere, None)
    assert (alone.estimate, alone.low, alone.high) == pytest.approx((0.5, *wilson(100, 200)))
    grouped = share(differ, everywhere, np.repeat(range(20), 10))
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)


def test_bad_input():
    (source, y), (target, z) = labelled(1, 30), labelled(2, 30)
    with pytest.raises(InputError, match="labels: 29 and 30 values for 30 and 30 rows"):
        concept_shift_on_features(source, y[1:], target, z)
    with pytest.raises(InputError, match="labels: 1 of 60 are nan or missing"):
        concept_shift_on_features(source, [None, *NAMES[y[1:]]], target, NAMES[z])
