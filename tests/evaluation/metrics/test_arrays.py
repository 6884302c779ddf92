from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import failure_points, group_accuracy, ranks

LABELS, PREDICTIONS, GROUPS = [0, 1, 2, 1], [0, 1, 1, 1], [0, 0, 1, 2]
SCORES = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.2, 0.6, 0.2]]

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "int8": lambda values: np.array(values, dtype=np.int8),
    "floats": lambda values: np.array(values, dtype=np.float32),
    "objects": lambda values: np.array(values, dtype=object),
    "masked, nothing hidden": lambda values: np.ma.array(values, mask=[False] * len(values)),
    "arrow array": pa.array,
    "arrow column": lambda values: pa.table({"x": pa.chunked_array([values[:1], values[1:]])})["x"],
    "pandas": lambda values: pytest.importorskip("pandas").Series(values),
    "tensor": lambda values: pytest.importorskip("torch").tensor(values),
}


@pytest.mark.parametrize("convert", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_every_container_of_ids_gives_the_same(convert):
    result = group_accuracy(convert(LABELS), convert(PREDICTIONS), convert(GROUPS), n_groups=3)
    assert result.accuracy.tolist() == [1.0, 0.0, 1.0]
    assert result.n.tolist() == [2, 1, 1]


@pytest.mark.parametrize("convert", [CONTAINERS[name] for name in ("list", "array", "arrow array", "tensor")])
def test_a_row_of_scores_is_its_largest(convert):
    by_scores = group_accuracy(LABELS, convert(SCORES), GROUPS, n_groups=3)
    assert by_scores.accuracy.tolist() == [1.0, 0.0, 1.0]


def test_of_equal_scores_the_first_wins():
    assert group_accuracy([0, 1], [[5, 5, 5], [0, 2, 2]], [0, 0], n_groups=1).overall == 1


@pytest.mark.parametrize(
    ("labels", "predictions", "groups", "message"),
    [
        ([0, 1], [0], [0, 0], "lengths differ: labels 2, predictions 1, groups 2; give one entry a row"),
        ([0, 1], [0, 1], [0], "lengths differ: labels 2, predictions 2, groups 1"),
        ([], [], [], "labels: empty; give at least one row"),
        ([0, float("nan")], [0, 1], [0, 0], r"labels: 1 of 2 are nan or missing \(first in row 1\)"),
        ([0, None], [0, 1], [0, 0], "labels: 1 of 2 are nan or missing"),
        (pa.array([0, None]), [0, 1], [0, 0], "labels: 1 of 2 are nan or missing"),
        (np.ma.array([0, 1], mask=[0, 1]), [0, 1], [0, 0], "labels: 1 of 2 are nan or missing"),
        (["cat", "dog"], [0, 1], [0, 0], "labels: numbers are needed, got <U3; encode names as ids"),
        (pa.array(["cat", "dog"]), [0, 1], [0, 0], "labels: not all are numbers .* encode names as ids"),
        ([0, 1], [0, 1.5], [0, 0], r"predictions: 1 of 2 are not whole numbers \(first in row 1\)"),
        ([0, 1], [0, float("inf")], [0, 0], "predictions: 1 of 2 are beyond"),
        ([0, 1], [0, -1], [0, 0], r"predictions: 1 of 2 are negative \(first in row 1: -1\)"),
        ([0, 1], [0, 1], [0, -2], "groups: 1 of 2 are negative"),
        ([0, 1], [0, 1], [9, 2], r"groups: 1 of 2 are too large \(first in row 0: 9\); allowed are 0 to 2"),
        ([0, 1], [[0.5, float("nan"), 0], [1, 0, 0]], [0, 0], "predictions: 1 of 6 are nan"),
        ([0, 1], [[0.5], [0.5, 0.5]], [0, 0], "predictions: cannot be read as an array"),
        ([0, 1], np.zeros((2, 3, 1)), [0, 0], "predictions: give one or two dimensions"),
        ([[0, 1]], [0, 1], [0, 0], r"labels: give 1 dimension, got shape \(1, 2\)"),
        (3, [0], [0], r"labels: give 1 dimension, got shape \(\)"),
    ],
)
def test_what_cannot_be_used_is_refused_with_reasons(labels, predictions, groups, message):
    with pytest.raises(InputError, match=message):
        group_accuracy(labels, predictions, groups, n_groups=3)


@pytest.mark.parametrize(
    "options", [{"requires_grad": True}, {"dtype": "bfloat16"}, {"device": "meta"}], ids=str
)
def test_a_tensor_that_numpy_cannot_read_is_refused_with_the_way_out(options):
    torch = pytest.importorskip("torch")

    options = {name: getattr(torch, value) if name == "dtype" else value for name, value in options.items()}
    tensor = torch.ones(2, **options)
    with pytest.raises(InputError, match=r"tensor after \.detach\(\)\.cpu\(\)\.float\(\)"):
        group_accuracy(tensor, [1, 1], [0, 0], n_groups=1)


def test_names_are_text_or_whole_numbers():
    for shifts, message in (
        (np.array(["snow", 3], dtype=object), "shifts: names of different types"),
        ([np.nan, 3.0], "shifts: 1 of 2 are nan or missing"),
        ("snow", "shifts: give one name a row"),
    ):
        with pytest.raises(InputError, match=message):
            failure_points([1, 1], [0, 1], trajectories=["a", "a"], shifts=shifts)


def test_numbers_must_be_finite():
    with pytest.raises(InputError, match="values: 1 of 2 are infinite"):
        ranks([1.0, -float("inf")])
    with pytest.raises(InputError, match=r"labels: 1 of 1 are beyond 2\*\*53"):
        group_accuracy([2.0**54], [0], [0], n_groups=1)
    assert group_accuracy([2.0**53], [2**53], [0], n_groups=1).overall == 1
    with pytest.raises(InputError, match="values: empty"):
        ranks([])
