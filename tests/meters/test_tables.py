from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from shiftdata.errors import InputError
from shiftdata.meters import covariate_shift, features_of_rows


def test_numbers_stay_and_texts_become_indicators():
    source, target = features_of_rows(
        [{"b": 1.5, "a": True, "c": "x"}, {"c": "y", "b": 2, "a": False}], [{"a": 0, "b": 3, "c": "z"}]
    )
    assert source.tolist() == [[1, 1.5, 1, 0, 0], [0, 2, 0, 1, 0]]
    assert target.tolist() == [[0, 3, 0, 0, 1]]


def test_tables_can_be_measured():
    generator = np.random.default_rng(0)
    tables = [
        pa.table(
            {"age": generator.normal(40, 9, 200), "sex": generator.choice(["f", "m"], 200, p=[p, 1 - p])}
        )
        for p in (0.5, 0.5, 0.9)
    ]
    first, same, other = (table.to_pylist() for table in tables)
    assert abs(covariate_shift(*features_of_rows(first, same)).value) < 0.15
    assert covariate_shift(*features_of_rows(first, other)).value == pytest.approx(0.4, abs=0.12)


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ([], [{"a": 1}], "give at least one row with at least one column"),
        ([{}], [{}], "give at least one row with at least one column"),
        ([{"a": 1}], [{"a": 1}, {"b": 1}], "column 'a' has int, no value: give only numbers"),
        ([{"a": 1}], [{"a": None}], "column 'a' has NoneType, int: give only numbers"),
        ([{"a": 1}], [{"a": "one"}], "column 'a' has int, str: give only numbers, or only texts"),
        ([{"a": [1]}], [{"a": [2]}], "column 'a' has list: give only numbers, or only texts"),
    ],
)
def test_bad_rows(source, target, said):
    with pytest.raises(InputError, match=said):
        features_of_rows(source, target)


def test_a_missing_number_is_refused_by_what_measures():
    rows = [{"a": 1.0}] * 20
    with pytest.raises(InputError, match="target: 1 of 20 are nan"):
        covariate_shift(*features_of_rows(rows, [*rows[1:], {"a": float("nan")}]))
