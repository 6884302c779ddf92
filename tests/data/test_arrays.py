"""Counting and sorting by small codes, stretch by stretch, against NumPy's of all rows at once."""

from __future__ import annotations

import numpy as np
import pytest

from shiftdata.data import arrays

SIZES = (1, 3, 70, arrays.RADIX + 1)


@pytest.fixture(autouse=True, params=[7, 64])
def _short_stretches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "STRETCH", request.param)
    monkeypatch.setattr(arrays, "TOGETHER", request.param)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_rows_by_code(rows: int, size: int) -> None:
    codes = np.random.default_rng(rows).integers(size, size=rows)
    order, counts = arrays.by_code(codes, size)
    np.testing.assert_array_equal(order, np.argsort(codes, kind="stable"))
    np.testing.assert_array_equal(counts, np.bincount(codes, minlength=size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [np.uint64, np.float64])
def test_rows_by_code_and_key(size: int, kind: type) -> None:
    draw = np.random.default_rng(size)
    codes, keys = draw.integers(size, size=1000), draw.integers(5, size=1000).astype(kind)
    order, counts = arrays.by_code_and_key(codes, keys, size)
    np.testing.assert_array_equal(order, np.lexsort((keys, codes)))
    np.testing.assert_array_equal(counts, np.bincount(codes, minlength=size))


def test_counts_leave_out_rows_of_no_code() -> None:
    assert arrays.counted(np.array([-1, 2, 0, 2, -1] * 9), 4).tolist() == [9, 0, 18, 0]


@pytest.mark.parametrize(("kind", "most"), [(np.int8, 127), (np.uint16, 65535)])
def test_the_largest_code_of_a_type_is_counted(kind: type, most: int) -> None:
    codes = np.array([most, 0, most], kind)
    assert arrays.by_code(codes, most + 1)[0].tolist() == [1, 0, 2]
    assert arrays.counted(codes, most + 1)[[0, most]].tolist() == [1, 2]


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64])
def test_codes_are_looked_up_in_a_table_of_any_type(kind: type) -> None:
    table, codes = np.arange(100, dtype=kind)[::-1], np.random.default_rng(0).integers(-1, 100, size=1000)
    found = arrays.looked_up(table, codes.astype(np.int32))
    np.testing.assert_array_equal(found, table[codes])
    assert found.dtype == kind
    assert arrays.looked_up(table[:0], codes[:0]).tolist() == []


def test_different_values_are_numbered_nan_too() -> None:
    values = np.tile([2.5, np.nan, 0.0, 2.5], 30)
    known, places = arrays.numbered(values)
    np.testing.assert_array_equal(known, [0, 2.5, np.nan])
    assert places.tolist() == [1, 2, 0, 1] * 30
    assert arrays.numbered(values[:0])[1].tolist() == []
