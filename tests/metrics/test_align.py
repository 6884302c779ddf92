from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.errors import InputError
from shiftdata.metrics import align

KEYS = ["dove_1", "dove_2", "gull_1"]

TABLES = {
    "mapping": lambda keys, values: dict(zip(keys, values, strict=True)),
    "two columns": lambda keys, values: {"key": keys, "prediction": values},
    "two arrays": lambda keys, values: {"prediction": np.array(values), "key": np.array(keys)},
    "tensor": lambda keys, values: {"key": keys, "prediction": torch.tensor(values)},
    "arrow": lambda keys, values: pa.table({"key": keys, "prediction": values, "more": keys}),
    "arrow, encoded": lambda keys, values: pa.table(
        {"key": pa.array(keys).dictionary_encode(), "prediction": values}
    ),
    "arrow, in chunks": lambda keys, values: pa.concat_tables(
        pa.table({"key": [key], "prediction": [value]}) for key, value in zip(keys, values, strict=True)
    ),
    "pandas": lambda keys, values: pd.DataFrame({"key": keys, "prediction": values}),
    "pandas, floats": lambda keys, values: pd.DataFrame({"key": keys, "prediction": np.array(values, float)}),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("hold", [list, np.array, pa.array, pd.Series], ids=lambda f: f.__name__)
def test_predictions_come_in_the_order_of_the_task(make, hold):
    found = align(hold(KEYS), make(["gull_1", "dove_1", "dove_2"], [7, 0, 3]))
    assert found.tolist() == [0, 3, 7]
    assert found.dtype.kind == "i"


@pytest.mark.parametrize("make", [TABLES["mapping"], TABLES["arrow"], TABLES["two arrays"]])
def test_rows_of_scores_come_along(make):
    found = align(KEYS, make(["gull_1", "dove_1", "dove_2"], [[0.1, 0.9], [0.8, 0.2], [0.6, 0.4]]))
    assert found.tolist() == [[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]]


def test_images_may_be_called_key_and_prediction():
    assert align(["key", "prediction"], {"prediction": 1, "key": 0}).tolist() == [0, 1]


@given(st.lists(st.text("abc_-0", min_size=1, max_size=6), min_size=1, unique=True), st.randoms())
def test_any_order_gives_the_same(keys, random):
    given = {key: i for i, key in enumerate(keys)}
    shuffled = sorted(keys, key=lambda _: random.random())
    assert align(keys, {key: given[key] for key in shuffled}).tolist() == list(range(len(keys)))
    assert align(shuffled, given).tolist() == [given[key] for key in shuffled]


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(InputError) as caught:
        align(
            [*KEYS, "wren_1"],
            {"key": ["dove_1", "dove_1", "hawk_1", "hawk_2", "hawk_3", "hawk_4"], "prediction": [0] * 6},
        )
    assert str(caught.value) == (
        "predictions do not fit the task's 4 keys: 4 unknown (hawk_1, hawk_2, hawk_3, ...); "
        "3 missing (dove_2, gull_1, wren_1); 1 repeated (dove_1). "
        "Give exactly one prediction for each key of the task"
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["dove_1", "dove_2"], r"3 keys: 1 missing \(gull_1\)\. Give"),
        (["dove_1", "dove_2", "gull_1", "hawk_1"], r"3 keys: 1 unknown \(hawk_1\)\. Give"),
        (["dove_1", "dove_2", "gull_1", "gull_1"], r"3 keys: 1 repeated \(gull_1\)\. Give"),
        (["dove_1", "dove_2", "dove_2"], r"3 keys: 1 missing \(gull_1\); 1 repeated \(dove_2\)\. Give"),
        (["dove_1", "dove_2", "Gull_1"], r"3 keys: 1 unknown \(Gull_1\); 1 missing \(gull_1\)\. Give"),
    ],
)
def test_each_fault_alone(keys, message):
    with pytest.raises(InputError, match=message):
        align(KEYS, {"key": keys, "prediction": range(len(keys))})


@pytest.mark.parametrize(
    ("task_keys", "predictions", "message"),
    [
        (["a", "b", "a"], {"a": 0, "b": 1}, r"task_keys: 1 repeated \(a\); give the key of each row once"),
        (["a", "a"], {"key": ["a", "a"], "prediction": [0, 1]}, r"task_keys: 1 repeated \(a\)"),
        ([], {"a": 0}, "task_keys: empty; give at least one key"),
        (["a"], {}, "predictions: empty; give at least one key"),
        (["a", None], {"a": 0}, r"task_keys: 1 keys are missing \(null\)"),
        ([1, 2], {1: 0, 2: 1}, "task_keys: keys are text, got int64"),
        (["a"], {1: 0}, "predictions: keys are text, got int64"),
        (["a"], {("a",): 0}, "predictions: keys are text"),
        (["a"], [0], "predictions: give a mapping from key to prediction, or a table .* got list"),
        (["a"], pa.table({"key": ["a"]}), "predictions: give a mapping .* got Table"),
        (["a"], pd.DataFrame({"name": ["a"]}), "predictions: give a mapping .* got DataFrame"),
        (["a"], {"key": ["a"], "prediction": [0, 1]}, "predictions: 1 keys and 2 predictions"),
        (["a", "b"], {"a": 0, "b": None}, "predictions: 1 of 2 are nan or missing"),
        (["a"], {"a": "dove"}, "predictions: numbers are needed"),
        (["a", "b"], {"a": [0.5, 0.5], "b": [1.0]}, "predictions: cannot be read"),
    ],
)
def test_bad_input(task_keys, predictions, message):
    with pytest.raises(InputError, match=message):
        align(task_keys, predictions)
