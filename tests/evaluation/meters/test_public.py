"""What holds for the package as a whole: names, documentation, records, what importing it costs."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import pytest

from shiftdata.evaluation import meters


def test_names_are_sorted_there_documented_and_in_the_overview():
    assert meters.__all__ == sorted(meters.__all__)
    for name in meters.__all__:
        assert getattr(meters, name).__module__.startswith("shiftdata.evaluation.meters.")
        assert len(inspect.getdoc(getattr(meters, name))) > 20
        assert name in meters.__doc__


@pytest.mark.parametrize("name", ["Bounds", "ConceptShift", "CovariateShift"])
def test_records_are_frozen_and_given_by_name(name):
    record = getattr(meters, name)
    assert record.__dataclass_params__.frozen
    assert all(field.kw_only for field in dataclasses.fields(record))
    assert all(isinstance(inspect.getattr_static(record, derived), property) for derived in record.derived)


def test_numpy_is_enough():
    code = "import sys, shiftdata.evaluation.meters; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    heavy = {"torch", "scipy", "sklearn", "pandas", "datasets", "builders"}
    assert not {name.split(".")[0] for name in loaded} & heavy
