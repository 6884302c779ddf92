"""The rows of a layout are kept in few bytes, and come back as they were."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.raw import found as module
from builders.raw.found import Found, Odd, Results, Row

NAMES = st.sampled_from(["", "a", "ü b"])
WORDS = st.sampled_from(["mini", "extended"])
FILES = st.sampled_from(["a.jpg", "/a.jpg", "x/a.jpg", "x/y/ä b.jpg", "x//a.jpg"])
ROWS = st.builds(
    Row,
    file=FILES,
    label=NAMES,
    part=st.none() | st.integers(0, 5),
    nuisance=st.none() | NAMES,
    severity=st.none() | st.sampled_from([0.0, 0.1]),
    origin=st.none() | NAMES,
    across=st.booleans(),
    stem=st.none() | NAMES,
    bases=st.lists(WORDS, max_size=2).map(tuple),
    more=st.dictionaries(st.text(max_size=2), st.integers() | st.none() | NAMES, max_size=2),
)


@settings(max_examples=100, deadline=None)
@given(results=st.lists(ROWS | st.builds(Odd, file=FILES, why=NAMES), max_size=20))
def test_rows_come_back_as_they_were_each_time(results: list[Found]):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "AT_ONCE", 3)
        kept = Results(iter(results))
    rows = [result for result in results if isinstance(result, Row)]
    assert [*kept] == [*kept] == rows
    assert len(kept) == len(rows)
    assert [path for some in kept.files() for path in some.to_pylist()] == [row.file for row in rows]
    assert kept.odd == {result.file: result.why for result in results if isinstance(result, Odd)}


def test_a_row_takes_less_than_a_hundred_bytes():
    """As Python objects a row takes a kilobyte, and fourteen million of them what no machine has."""
    count = 50_000

    def made() -> Iterator[Row]:
        for number in range(count):
            yield Row(
                file=f"train/n{number % 1000:08}/n{number:08}_{number}.JPEG", label=f"class {number % 9}"
            )

    before = pa.total_allocated_bytes()
    tracemalloc.start()
    kept = Results(made())
    own = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept) == count
    assert own + pa.total_allocated_bytes() - before < 100 * count
