from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from shiftdata.errors import InputError
from shiftdata.metrics import calibration_error


def drawn(n, classes, seed):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(classes, 0.3), size=n)
    return generator.integers(0, classes, n), probabilities


@given(st.integers(1, 200), st.integers(2, 6), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_width_row_by_row(n, classes, bins, seed):
    labels, probabilities = drawn(n, classes, seed)
    gaps, rows = np.zeros(bins), np.zeros(bins, dtype=int)
    for label, row in zip(labels, probabilities, strict=True):
        inside = [i for i in range(bins) if i / bins < row.max() <= (i + 1) / bins]
        gaps[inside[0]] += float(row.argmax() == label) - row.max()
        rows[inside[0]] += 1
    result = calibration_error(labels, probabilities, bins=bins)
    assert result.n.tolist() == rows.tolist()
    assert result.expected == pytest.approx(np.abs(gaps).sum() / n)
    assert result.maximum == pytest.approx(max(np.abs(gaps)[rows > 0] / rows[rows > 0]))


@pytest.mark.parametrize(("binning", "strategy"), [("width", "uniform"), ("mass", "quantile")])
def test_bins_are_those_of_scikit_learn(binning, strategy):
    labels, probabilities = drawn(1_000, 3, 5)
    right, confidence = probabilities.argmax(axis=1) == labels, probabilities.max(axis=1)
    accuracy, mean = calibration_curve(right, confidence, n_bins=10, strategy=strategy)
    result = calibration_error(labels, probabilities, bins=10, binning=binning)
    held = result.n > 0
    assert result.accuracy[held] == pytest.approx(accuracy, abs=0.011)  # edges between rows may differ by one
    assert result.confidence[held] == pytest.approx(mean, abs=0.011)


@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_bins_of_equal_mass_are_equal(n, bins, seed):
    labels, probabilities = drawn(n, 4, seed)
    result = calibration_error(labels, probabilities, bins=bins, binning="mass")
    assert result.n.max() - result.n.min() <= 1
    held = result.confidence[result.n > 0]
    assert (np.diff(held) >= 0).all()


def test_equal_confidences_stay_together_in_any_order():
    probabilities = np.array([[0.7, 0.3]] * 6 + [[0.9, 0.1]] * 4)
    labels = np.array([0, 1] * 5)
    result = calibration_error(labels, probabilities, bins=5, binning="mass")
    assert sorted(result.n.tolist()) == [0, 0, 0, 4, 6]
    turned = calibration_error(labels[::-1], probabilities[::-1], bins=5, binning="mass")
    np.testing.assert_array_equal(turned.accuracy, result.accuracy)


def test_empty_bins_are_nan_and_weigh_nothing():
    result = calibration_error([0, 0], [[0.95, 0.05], [0.95, 0.05]], bins=10)
    assert result.n.tolist() == [0] * 9 + [2]
    assert np.isnan(result.accuracy[:9]).all()
    assert result.expected == result.maximum == pytest.approx(0.05)
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["accuracy"][0] is None
    assert str(result).splitlines()[0] == "ECE 0.0500, MCE 0.0500 (bins of equal width)"
    assert str(result).splitlines()[2].split() == ["0", "-", "-", "0"]


def test_the_ends_of_confidence_have_bins():
    result = calibration_error([0, 1], [[1.0, 0.0], [0.0, 1.0]], bins=3)
    assert (result.n.tolist(), result.expected) == ([0, 0, 2], 0)


def test_bad_input():
    with pytest.raises(InputError, match="bins must be at least 1"):
        calibration_error([0], [[1.0, 0.0]], bins=0)
    with pytest.raises(InputError, match="unknown binning 'quantile'; known: width, mass"):
        calibration_error([0], [[1.0, 0.0]], binning="quantile")
    with pytest.raises(InputError, match="labels: 1 of 1 are too large"):
        calibration_error([2], [[1.0, 0.0]])
