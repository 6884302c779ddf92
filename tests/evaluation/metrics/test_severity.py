from __future__ import annotations

import json

import numpy as np
import pytest

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import severity_accuracy


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    n = 600
    labels = generator.integers(0, 3, n)
    predictions = np.where(generator.random(n) < 0.7, labels, 0)
    return labels, predictions, generator.choice([0, 0.5, 1, 2.5], n), generator.choice(["snow", "fog"], n)


def test_it_is_the_mean_of_each_cell(rows):
    labels, predictions, severities, shifts = rows
    result = severity_accuracy(labels, predictions, severities, shifts=shifts)
    cells = [
        [(labels == predictions)[(shifts == shift) & (severities == step)] for step in (0, 0.5, 1, 2.5)]
        for shift in ("fog", "snow")
    ]
    means = np.array([[cell.mean() for cell in row] for row in cells])
    assert result.shifts == ("fog", "snow")
    assert result.severities.tolist() == [0, 0.5, 1, 2.5]
    np.testing.assert_allclose(result.accuracy, means)
    assert result.n.tolist() == [[len(cell) for cell in row] for row in cells]
    np.testing.assert_allclose(result.mean, means.mean(axis=0))
    pooled = severity_accuracy(labels, predictions, severities)
    assert (pooled.shifts, pooled.accuracy.shape) == (("all",), (1, 4))
    np.testing.assert_allclose(result.overall, pooled.accuracy[0])


def test_the_average_drop_is_that_of_table_2():
    # CNS-Bench, table 2, ResNet-18: accuracies at six scales, an average of 0.84 and of the drop 0.06.
    accuracies = [0.90, 0.90, 0.88, 0.85, 0.80, 0.72]
    labels = np.zeros(600, dtype=int)
    predictions = np.concatenate([np.arange(100) >= round(100 * a) for a in accuracies]).astype(int)
    result = severity_accuracy(labels, predictions, np.repeat(np.arange(6) / 2, 100))
    assert result.mean.tolist() == accuracies
    assert result.drop == pytest.approx([0, 0, 0.02, 0.05, 0.10, 0.18])
    assert round(result.mean.mean(), 2) == 0.84
    assert round(result.mean_drop, 2) == 0.06


def test_a_cell_without_rows_is_nan_and_so_is_its_mean():
    result = severity_accuracy([0, 0, 0], [0, 0, 1], [0, 1, 0], shifts=["a", "a", "b"])
    assert result.n.tolist() == [[1, 1], [1, 0]]
    assert np.isnan(result.accuracy[1, 1])
    assert np.isnan(result.mean[1])
    assert np.isnan(result.mean_drop)
    assert result.overall.tolist() == [0.5, 1]
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["accuracy"] == [[1, 1], [0, None]]
    assert str(result).splitlines() == [
        "shift       0       1",
        "a      1.0000  1.0000",
        "b      0.0000       -",
        "mean   0.5000       -",
    ]


def test_severities_that_print_the_same_are_the_same():
    assert severity_accuracy([0, 0], [0, 0], [0.1 + 0.2, 0.3]).severities.tolist() == [0.3]
    assert severity_accuracy([0, 0], [0, 0], [0.3, 0.300001]).severities.tolist() == [0.3, 0.300001]


def test_bad_input():
    with pytest.raises(InputError, match=r"a drop needs rows at severity 0; the lowest is 0\.5"):
        severity_accuracy([0], [0], [0.5]).drop  # noqa: B018
    with pytest.raises(InputError, match="severities: the lowest is -1; they start at 0"):
        severity_accuracy([0], [0], [-1])
    with pytest.raises(InputError, match="predictions: 1 of 1 are too large"):
        severity_accuracy([0], [3], [0], n_classes=3)
    with pytest.raises(InputError, match="lengths differ: labels 2, severities 1, shifts 2"):
        severity_accuracy([0, 0], [0, 0], [0])
    with pytest.raises(InputError, match="severities: 1 of 2 are nan"):
        severity_accuracy([0, 0], [0, 0], [0, np.nan])
