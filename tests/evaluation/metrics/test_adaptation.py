from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import h_score, label_marginal, label_marginal_l1

# SMA's UniDA: classes 0-9 are shared, 10-14 private to the source, 15-19 to the target.
SHARED = range(10)


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    labels = np.concatenate([generator.integers(0, 10, 400), generator.integers(15, 20, 300)])
    right = np.where(labels < 10, labels, -1)
    wrong = generator.choice([-1, 2, 12], len(labels))
    return labels, np.where(generator.random(len(labels)) < 0.6, right, wrong)


def test_over_rows_as_sma_computes_it(rows):
    labels, predictions = rows
    result = h_score(labels, predictions, shared=SHARED, unknown=-1)
    known = labels < 10
    assert result.known == np.mean(labels[known] == predictions[known])
    assert result.unknown == np.mean(predictions[~known] == -1)
    assert result.h == pytest.approx(2 / (1 / result.known + 1 / result.unknown))
    assert (result.n_known, result.n_unknown) == (400, 300)


def test_over_classes_as_ovanet_computes_it(rows):
    labels, predictions = rows
    result = h_score(labels, predictions, shared=SHARED, unknown=-1, average="classes")
    expected = np.mean([np.mean(predictions[labels == label] == label) for label in SHARED])
    assert result.known == pytest.approx(expected)
    assert result.unknown == h_score(labels, predictions, shared=SHARED, unknown=-1).unknown


@pytest.mark.parametrize("unknown", [-1, 10, 99])
def test_whatever_id_stands_for_unknown(rows, unknown):
    labels, predictions = rows
    renamed = np.where(predictions == -1, unknown, predictions)
    marked = np.where(labels < 10, labels, -1)  # the target's private classes marked as one
    first = h_score(labels, predictions, shared=SHARED, unknown=-1)
    assert h_score(labels, renamed, shared=SHARED, unknown=unknown) == first
    assert h_score(marked, renamed, shared=SHARED, unknown=unknown) == first


def test_without_known_or_unknown_rows_there_is_no_score():
    result = h_score([0, 1], [0, 1], shared=[0, 1], unknown=-1)
    assert (result.known, result.n_unknown) == (1, 0)
    assert np.isnan([result.unknown, result.h]).all()
    assert result.to_dict() == {"known": 1, "unknown": None, "n_known": 2, "n_unknown": 0, "h": None}
    assert "unknown - (n=0)" in str(result)
    assert np.isnan(h_score([0, 9], [0, -1], shared=[0, 1], unknown=-1, average="classes").h)


def test_bad_input():
    with pytest.raises(InputError, match="the id 1 is that of unknown classes"):
        h_score([0], [0], shared=[0, 1], unknown=1)
    with pytest.raises(InputError, match="predictions: 1 of 1 are negative"):
        h_score([0], [-1], shared=[0], unknown=5)
    with pytest.raises(InputError, match="average must be 'rows' or 'classes', got 'macro'"):
        h_score([0], [0], shared=[0], unknown=1, average="macro")
    with pytest.raises(InputError, match="lengths differ"):
        h_score([0, 1], [0], shared=[0], unknown=1)


def test_a_marginal_counts_classes_that_never_occur():
    assert label_marginal([2, 2, 0, 2], 4).tolist() == [0.25, 0, 0.75, 0]
    with pytest.raises(InputError, match="labels: 1 of 2 are too large"):
        label_marginal([0, 4], 4)


shares = st.lists(st.floats(0.01, 1), min_size=5, max_size=5).map(lambda x: np.array(x) / np.sum(x))


@given(shares, shares)
def test_l1_is_a_distance_between_0_and_2(p, q):
    assert label_marginal_l1(p, p) == 0
    assert 0 <= label_marginal_l1(p, q) == label_marginal_l1(q, p) <= 2
    assert label_marginal_l1(p, q) == pytest.approx(np.linalg.norm(p - q, ord=1))


@pytest.mark.parametrize(
    ("bad", "message"),
    [([0.5, 0.50001], "a sum of 1.00001"), ([0.5, 0.6], "a sum of 1.1"), ([1.5, -0.5], "not negative")],
)
def test_a_marginal_must_be_one(bad, message):
    with pytest.raises(InputError, match=message):
        label_marginal_l1(bad, [0.5, 0.5])
    with pytest.raises(InputError, match="true: shares of classes"):
        label_marginal_l1([0.5, 0.5], bad)
    with pytest.raises(InputError, match="lengths differ: estimated 3, true 2"):
        label_marginal_l1([0.5, 0.5, 0], [0.5, 0.5])


def test_the_ends():
    assert h_score([0, 9], [0, -1], shared=[0], unknown=-1).h == 1
    assert h_score([0, 9], [0, 0], shared=[0], unknown=-1).h == 0
    assert h_score([0, 9], [1, 0], shared=[0], unknown=-1).h == 0  # 0 of both is 0, not undefined
