"""The package as a whole: names, documentation, JSON, what importing it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np

from shiftdata.evaluation import metrics
from shiftdata.evaluation.metrics.records import plain


def test_the_overview_names_every_function():
    functions = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    assert {name for name in functions if name not in metrics.__doc__} == set()


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
    before = np.random.get_state()[1].tolist()
    metrics.bootstrap_rows(np.mean, 9)
    assert np.random.get_state()[1].tolist() == before
