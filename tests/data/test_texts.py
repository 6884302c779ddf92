"""Joins and order of texts in parts against Arrow's of all at once."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from shiftdata.data.metadata import texts

BEGINNINGS = ("", "label", "lång/" * 40)
ENDS = ("", "-x" * 100, "é")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few thousand texts need many parts, and several stretches of each step."""
    for name, value in {"PART": 64, "SAMPLED": 4, "AT_ONCE": 500}.items():
        monkeypatch.setattr(texts, name, value)


def _texts(number: int, beginning: str = "", end: str = "") -> pa.Array:
    """Return texts of different lengths, some of them twice, as a slice of an array."""
    draw = random.Random(number)
    middles = [draw.choice(["", "a", "é", "abcdefgh"]) + str(draw.randrange(2000)) for _ in range(3000)]
    return pa.array([beginning + middle + end for middle in middles], pa.large_string()).slice(7)


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("end", ENDS)
def test_positions_are_those_of_arrow(beginning: str, end: str) -> None:
    wanted, among = _texts(0, beginning, end), _texts(1, beginning, end)
    expected = pc.fill_null(pc.index_in(wanted, value_set=among), -1).to_numpy()
    assert (expected < 0).any()
    np.testing.assert_array_equal(texts.positions(wanted, among), expected)


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("end", ENDS)
def test_order_is_that_of_bytes(beginning: str, end: str) -> None:
    given = _texts(2, beginning, end)
    order = texts.text_order(given)
    assert sorted(order.tolist()) == list(range(len(given)))
    assert given.take(pa.array(order)).equals(given.take(pc.sort_indices(given)))


def test_no_texts_and_missing_ones() -> None:
    none = pa.array([], pa.large_string())
    assert texts.positions(none, none).tolist() == texts.text_order(none).tolist() == []
    missing = pa.array([None, "a", *map(str, range(500))], pa.large_string())
    assert texts.positions(missing, missing.drop_null()).tolist() == [-1, *range(501)]


def test_parts_are_even_and_the_same_next_to_any_text() -> None:
    keys = pa.array(
        [f"label{n % 7}-content-image-{n:06d}-style{n % 20}" for n in range(6400)], pa.large_string()
    )
    parts = texts.spread(keys, 64)
    assert np.bincount(parts, minlength=64).max() < 200  # 100 on average
    # A longer text in the same stretch pads all others, which must not move them.
    longer = pa.concat_arrays([keys, pa.array(["x" * 127], pa.large_string())])
    np.testing.assert_array_equal(texts.spread(longer, 64)[:-1], parts)
