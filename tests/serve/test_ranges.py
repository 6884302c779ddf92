"""Ranges of a file, against slicing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shiftdata.serve.file_answers import byte_ranges
from shiftdata.serve.names import Refusal

CONTENT = bytes(range(200))
numbers = st.one_of(st.integers(0, 250), st.integers(0, 10**40))


def answered(header: str, size: int) -> bytes | int:
    """The bytes that a header gets, or the status that refuses it."""
    try:
        found = byte_ranges(header, size)
    except Refusal as refusal:
        return refusal.status
    assert all(0 <= start < end <= size for start, end in found)
    assert sum(end - start for start, end in found) <= size
    return b"".join(CONTENT[start:end] for start, end in found or [(0, size)])


@given(numbers, numbers, st.integers(0, 200))
@example(0, 0, 0)
def test_from_first_to_last(first: int, last: int, size: int):
    if last < first:
        expected: bytes | int = CONTENT[:size]  # no range at all: all of it
    else:
        expected = CONTENT[:size][first : last + 1] or 416
    assert answered(f"bytes={first}-{last}", size) == expected


@given(numbers, st.integers(0, 200))
def test_from_first_on(first: int, size: int):
    assert answered(f"bytes={first}-", size) == (CONTENT[:size][first:] or 416)


@given(numbers, st.integers(0, 200))
def test_the_last_bytes(count: int, size: int):
    assert answered(f"bytes=-{count}", size) == (CONTENT[:size][-count:] if count and size else 416)


@given(st.lists(st.integers(0, 60), min_size=2, max_size=12, unique=True), st.integers(1, 50))
def test_several_in_order_are_these_of_the_bytes_that_exist(ends: list[int], size: int):
    ends = sorted(ends)[: len(ends) // 2 * 2]
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    header = "bytes=" + ", ".join(f"{start}-{end - 1}" for start, end in pairs)
    expected = b"".join(CONTENT[:size][start:end] for start, end in pairs)
    assert answered(header, size) == (expected or 416)


@given(st.text(max_size=30))
def test_any_other_text_is_no_range(text: str):
    answered(text, 100)
    answered(f"bytes={text}", 100)


@pytest.mark.parametrize(
    "header",
    [
        "bytes=-",
        "bytes=1_0-20",
        "bytes=+1-2",
        "bytes=--5",
        "bytes=0x1-",
        "items=0-1",
        "bytes=5-6,0-1",
        "bytes=0-5,5-6",
        "bytes=0-1,2",
        "bytes=" + ",".join(["0-0"] * 300),
        "bytes=\u0661-",
    ],
)
def test_what_is_no_single_range_is_answered_whole(header: str):
    assert answered(header, 100) == CONTENT[:100]
