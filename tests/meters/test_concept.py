from __future__ import annotations

import json

import numpy as np
import pytest

from shiftdata.errors import InputError
from shiftdata.meters import (
    concept_shift,
    concept_shift_on_features,
    covariate_shift,
)

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
        found = concept_shift_on_features(source, y, target, z)
        assert found.maximum.estimate < 0.05
        assert found.floor < 0.05
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
    found = concept_shift_on_features(source, y, target, np.where(z < 2, 1 - z, z))
    share = np.mean(y < 2), np.mean(z < 2)
    assert (found.on_source, found.on_target) == pytest.approx(share, abs=0.04)
    assert found.minimum.estimate == min(found.on_source, found.on_target)
    assert found.maximum.estimate == max(found.on_source, found.on_target)


def test_the_floor_is_what_one_distribution_gives():
    # Many features for few rows: the fits themselves disagree.
    generator = np.random.default_rng(0)
    source, target = generator.normal(size=(2, 120, 60))
    y, z = ((rows[:, 0] > 0).astype(int) for rows in (source, target))
    found = concept_shift_on_features(source, y, target, z, repeats=5)
    assert found.minimum.estimate > 0.1
    assert found.minimum.low < found.floor < found.maximum.high


def test_the_floor_keeps_origins_on_their_side():
    # Five near copies of each of 40 points with a label of its own: fits that share points would agree.
    generator = np.random.default_rng(0)
    points, labels = generator.normal(size=(80, 40)), generator.integers(2, size=80)
    rows = np.repeat(points, 5, axis=0) + 0.01 * generator.normal(size=(400, 40))
    names, codes = np.repeat(np.arange(80), 5), np.repeat(labels, 5)
    found = concept_shift_on_features(
        rows[:200], codes[:200], rows[200:], codes[200:], origins=(names[:200], names[200:])
    )
    assert found.floor == pytest.approx(found.maximum.estimate, abs=0.15)
    assert found.floor > 0.3


def test_only_shared_labels_count():
    (source, y), (target, z) = labelled(1), labelled(2)
    found = concept_shift_on_features(source[y != 3], NAMES[y[y != 3]], target[z != 0], NAMES[z[z != 0]])
    assert found.labels == ("bee", "cat")
    assert found.left_out == (y == 0).sum() + (z == 3).sum()
    assert (found.n_source, found.n_target) == (np.isin(y, [1, 2]).sum(), np.isin(z, [1, 2]).sum())
    assert found.maximum.estimate < 0.05
    with pytest.raises(InputError, match="1 labels are on both sides: concept shift needs at least 2"):
        concept_shift_on_features(
            source[y < 2], y[y < 2], target[z > 0][z[z > 0] != 2], z[z > 0][z[z > 0] != 2]
        )


def test_swapping_swaps_the_directions():
    (source, y), (target, z) = labelled(1), labelled(2)
    z = np.where(z < 2, 1 - z, z)
    one, other = (
        concept_shift_on_features(source, y, target, z),
        concept_shift_on_features(target, z, source, y),
    )
    assert (one.on_source, one.on_target) == pytest.approx((other.on_target, other.on_source), abs=0.01)
    assert one.minimum.estimate == pytest.approx(other.minimum.estimate, abs=0.01)


def test_equal_seeds_give_equal_results():
    (source, y), (target, z) = labelled(1, 80), labelled(2, 80)
    z = np.random.default_rng(0).permutation(z)
    assert concept_shift_on_features(source, y, target, z) == concept_shift_on_features(source, y, target, z)
    assert concept_shift_on_features(source, y, target, z, seed=1) != concept_shift_on_features(
        source, y, target, z, seed=2
    )


def test_predictions_of_two_models():
    source, target = np.arange(40), np.arange(20, 60)
    given = concept_shift((source < 30, source < 25), (target < 30, target < 25))
    assert (given.on_source, given.on_target) == (5 / 40, 5 / 40)
    named = concept_shift((["a"] * 20, ["a"] * 19 + ["b"]), (["a"] * 20, ["b"] * 20))
    assert (named.minimum.estimate, named.maximum.estimate) == (0.05, 1)
    assert named.maximum.low == 1
    assert named.minimum.low == 0


def test_origins_widen_the_interval():
    differ = np.repeat([0, 1] * 10, 10)
    same, origins = np.zeros(200, int), np.repeat(range(20), 10)
    alone = concept_shift((same, differ), (same, differ)).minimum
    grouped = concept_shift((same, differ), (same, differ), origins=(origins, origins)).minimum
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)


def test_the_record():
    (source, y), (target, z) = labelled(1, 80), labelled(2, 80)
    found = concept_shift_on_features(source, NAMES[y], target, NAMES[z])
    stored = json.loads(json.dumps(found.to_dict()))
    assert stored["labels"] == ["ant", "bee", "cat", "dog"]
    assert stored["fit"] == "logistic regressions, penalty 0.1, 0-1 loss, 2 x 2 halves"
    assert "without a shift 0.0" in str(found)
    given = concept_shift((y, y), (z, z))
    assert given.to_dict()["floor"] is None
    assert "without" not in str(given)


def test_bad_input():
    (source, y), (target, z) = labelled(1, 30), labelled(2, 30)
    with pytest.raises(InputError, match="labels: 29 and 30 values for 30 and 30 rows"):
        concept_shift_on_features(source, y[1:], target, z)
    with pytest.raises(InputError, match="labels: 1 of 60 are nan or missing"):
        concept_shift_on_features(source, [None, *NAMES[y[1:]]], target, NAMES[z])
    with pytest.raises(InputError, match="on_target: 30 and 29 values for 30 and 30 rows"):
        concept_shift((y, y), (z, z[1:]))
    with pytest.raises(InputError, match="5 rows in a set of the target: at least 20 are needed"):
        concept_shift((y, y), (z[:5], z[:5]))
