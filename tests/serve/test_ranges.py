"""One range of a file, against slicing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shiftdata.serve.file_answers import byte_range
from shiftdata.serve.names import Refusal

CONTENT = bytes(range(200))
numbers = st.one_of(st.integers(0, 250), st.integers(0, 10**40))


def answered(header: str, size: int) -> bytes | int:
    """The bytes that a header gets, or the status that refuses it."""
    try:
        found = byte_range(header, size)
    except Refusal as refusal:
        return refusal.status
    start, end = found or (0, size)
    assert 0 <= start <= end <= size
    return CONTENT[:size][start:end]


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
        "bytes=0-1,5-6",
        "bytes=\u0661-",
    ],
)
def test_what_is_no_single_range_is_answered_whole(header: str):
    assert answered(header, 100) == CONTENT[:100]
