"""What holds for the package as a whole: names, documentation, JSON, what importing it costs."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import numpy as np
import pytest

from shiftdata.evaluation import metrics
from shiftdata.evaluation.metrics.records import Record, plain

RECORDS = [
    value
    for name in metrics.__all__
    if isinstance(value := getattr(metrics, name), type) and issubclass(value, Record)
]


def test_names_are_sorted_there_and_documented():
    assert metrics.__all__ == sorted(metrics.__all__)
    for name in metrics.__all__:
        value = getattr(metrics, name)
        if callable(value):
            assert value.__module__.startswith("shiftdata.evaluation.metrics."), name
            assert len(inspect.getdoc(value)) > 20, name


def test_the_overview_names_every_function():
    functions = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    assert {name for name in functions if name not in metrics.__doc__} == set()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_results_are_frozen_and_name_real_properties(record):
    assert dataclasses.is_dataclass(record)
    assert record.__dataclass_params__.frozen
    fields = {field.name for field in dataclasses.fields(record)}
    assert set(record.omitted) <= fields
    assert all(isinstance(inspect.getattr_static(record, name), property) for name in record.derived)
    assert record.__str__ is not object.__str__


def test_there_are_results_to_look_at():
    assert len(RECORDS) >= 10


def test_json_has_only_what_json_can_say():
    nested = {
        "a": (np.float32(1), np.int8(2), np.bool_(True)),
        3: [float("inf"), {"b": np.array([[np.nan]])}],
    }
    assert plain(nested) == {"a": [1.0, 2, True], "3": [None, {"b": [[None]]}]}


def test_numpy_is_enough():
    code = "import sys, shiftdata.evaluation.metrics; print(*sys.modules)"
    loaded = {
        name.split(".")[0]
        for name in subprocess.check_output([sys.executable, "-c", code], text=True).split()
    }
    assert not loaded & {"torch", "scipy", "sklearn", "pandas", "datasets", "builders"}


def test_global_randomness_is_neither_read_nor_moved():
    result = metrics.group_accuracy([0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], n_groups=2)
    before = np.random.get_state()[1].tolist()
    metrics.bootstrap_groups(result)
    metrics.compare([0, 1], [0, 1], [0, 0])
    assert np.random.get_state()[1].tolist() == before
