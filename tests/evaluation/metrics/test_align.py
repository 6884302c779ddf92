from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import align

KEYS = ["dove_1", "dove_2", "gull_1"]


@pytest.mark.parametrize("container", [list, np.array, pa.array], ids=lambda f: f.__name__)
def test_predictions_come_in_the_order_of_the_task(container):
    given = ["gull_1", "dove_1", "dove_2"]
    encoded = [pa.array(given).dictionary_encode(), pa.chunked_array([[key] for key in given])]
    for keys in (container(given), *encoded):
        assert align(container(KEYS), keys).tolist() == [1, 2, 0]


@given(st.lists(st.text("abc_-0", min_size=1, max_size=6), min_size=1, unique=True), st.randoms())
def test_any_order_gives_the_same(keys, random):
    shuffled = sorted(keys, key=lambda _: random.random())
    assert np.array(shuffled)[align(keys, shuffled)].tolist() == keys
    assert np.array(keys)[align(shuffled, keys)].tolist() == shuffled


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(InputError) as caught:
        align([*KEYS, "wren_1"], ["dove_1", "dove_1", "hawk_1", "hawk_2", "hawk_3", "hawk_4"])
    assert str(caught.value) == (
        "predictions do not fit the task's 4 keys: 4 unknown (hawk_1, hawk_2, hawk_3, ...); "
        "3 missing (dove_2, gull_1, wren_1); 1 repeated (dove_1). "
        "Give exactly one prediction for each key of the task"
    )


@pytest.mark.parametrize(
    ("task_keys", "keys", "message"),
    [
        (["a", "b", "a"], ["a", "b"], r"task_keys: 1 repeated \(a\); give the key of each row once"),
        (["a", "a"], ["a", "a"], r"task_keys: 1 repeated \(a\)"),
        ([], ["a"], "task_keys: empty; give at least one key"),
        (["a"], [], "predictions: empty; give at least one key"),
        (["a", None], ["a"], r"task_keys: 1 keys are missing \(null\)"),
        ([1, 2], [1, 2], "task_keys: keys are text, got int64"),
        (["a"], [1], "predictions: keys are text, got int64"),
        (["a"], [("a",)], "predictions: keys are text"),
    ],
)
def test_bad_input(task_keys, keys, message):
    with pytest.raises(InputError, match=message):
        align(task_keys, keys)
