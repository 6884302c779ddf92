from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from shiftdata.errors import InputError
from shiftdata.metrics import group_odds

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=60)


@given(rows)
def test_rates_are_those_of_one_class_against_the_rest(rows):
    labels, predictions, attributes = np.array(rows).T
    odds = group_odds(labels, predictions, attributes, n_classes=3, n_attributes=4)
    for label in range(3):
        for value in range(4):
            own = attributes == value
            true, raised = labels[own] == label, predictions[own] == label
            empty = np.zeros((2, 2), dtype=int)  # scikit-learn refuses to count nothing
            matrix = confusion_matrix(true, raised, labels=[False, True]) if own.any() else empty
            (tn, fp), (fn, tp) = matrix
            assert (odds.n_positive[label, value], odds.n_negative[label, value]) == (tp + fn, tn + fp)
            for rate, hits, n in (
                (odds.true_positive, tp, tp + fn),
                (odds.false_positive, fp, tn + fp),
            ):
                assert rate[label, value] == pytest.approx(hits / n if n else np.nan, nan_ok=True)


def test_a_binary_table_by_hand():
    # Attribute 0: 3 of 4 positives found, 1 of 5 negatives raised; attribute 1: 1 of 2 and 3 of 5.
    labels = [1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    predictions = [1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0]
    attributes = [0] * 9 + [1] * 7
    odds = group_odds(labels, predictions, attributes, n_classes=2, n_attributes=2, positive=1)
    assert odds.true_positive.tolist() == [[0.75, 0.5]]
    assert odds.false_positive.tolist() == [[0.2, 0.6]]
    assert odds.equal_opportunity == 0.25
    assert odds.equalized_odds == pytest.approx(0.4)
    assert odds.n_positive.tolist() == [[4, 2]]


def test_against_the_rest_a_binary_task_sees_both_sides():
    generator = np.random.default_rng(0)
    labels, predictions, attributes = generator.integers(0, 2, (3, 300))
    both = group_odds(labels, predictions, attributes, n_classes=2, n_attributes=2)
    assert both.true_positive[0] == pytest.approx(1 - both.false_positive[1])
    one = group_odds(labels, predictions, attributes, n_classes=2, n_attributes=2, positive=1)
    assert both.equalized_odds == pytest.approx(one.equalized_odds)
    assert both.mean_equalized_odds == pytest.approx(both.equalized_odds)
    assert both.mean_equal_opportunity <= both.equal_opportunity


def test_perfect_and_constant_predictions_are_fair():
    labels, attributes = np.arange(40) % 4, np.arange(40) // 4 % 5
    for predictions in (labels, np.zeros(40, dtype=int)):
        odds = group_odds(labels, predictions, attributes, n_classes=4, n_attributes=5)
        assert odds.equal_opportunity == odds.equalized_odds == 0


def test_rates_without_rows_are_undefined_and_so_are_their_gaps():
    odds = group_odds([0, 1, 0], [0, 1, 1], [0, 0, 1], n_classes=2, n_attributes=2, positive=1)
    assert odds.n_positive.tolist() == [[1, 0]]
    assert np.isnan([odds.true_positive[0, 1], odds.equal_opportunity, odds.equalized_odds]).all()
    assert odds.false_positive.tolist() == [[0, 1]]
    found = json.loads(json.dumps(odds.to_dict(), allow_nan=False))
    assert (found["true_positive"], found["equal_opportunity"]) == ([[1, None]], None)


def test_it_prints_the_gap_of_each_class():
    odds = group_odds([0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1], n_classes=2, n_attributes=2)
    assert str(odds).splitlines() == [
        "equal opportunity 1.0000, equalised odds 1.0000 (largest gap of a class; means 0.5000 and 1.0000)",
        "class  opportunity gap  odds gap",
        "0               1.0000    1.0000",
        "1               0.0000    1.0000",
    ]


def test_bad_input():
    with pytest.raises(InputError, match="positive must be a class from 0 to 1, got 2"):
        group_odds([0], [0], [0], n_classes=2, n_attributes=1, positive=2)
    with pytest.raises(InputError, match="attributes: 1 of 1 are too large"):
        group_odds([0], [0], [1], n_classes=2, n_attributes=1)
    with pytest.raises(InputError, match="predictions: 1 of 1 are too large"):
        group_odds([0], [2], [0], n_classes=2, n_attributes=1)
    with pytest.raises(InputError, match="lengths differ"):
        group_odds([0], [0], [0, 0], n_classes=2, n_attributes=1)
