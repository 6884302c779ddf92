"""Read ahead in an order that is known: large windows of it, whose rows are fetched as they lie.

The order of an epoch is known from its start, so a row need not wait for its turn. The order is cut into
windows of consecutive batches. The rows of a window are fetched in the order in which they lie, neighbours
by one request, many requests at a time, and wait in memory. The next window is fetched while one is handed
out, so at most two are in memory. The first is one batch, so that an epoch begins at once; each of the others
has up to half of the bytes that may wait. (Windows that grow step by step would tear neighbours apart.)

Where all rows fit, nearly all of them come by a few large ranges. The fewer of them fit, the fewer are
neighbours, down to one request a row. A row is fetched again only where it is drawn again in a later window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.byte_ranges.reader import ExampleReader
from shiftdata.errors import ShiftdataError
from shiftdata.threads import futures

Job = TypeVar("Job")
#: The examples of a window, by position.
Examples: TypeAlias = dict[int, bytes]


def read_ahead(
    reader: ExampleReader, batches: Iterable[tuple[Job, IntArray]]
) -> Generator[tuple[Job, Callable[[], list[bytes]]]]:
    """Each batch that has some rows, and what waits for their examples.

    Close the generator to leave early. What cannot be read with its window is read with its batch, so that an
    error comes in its turn.
    """
    left = threading.Event()

    def fetch(window: list[tuple[Job, IntArray]]) -> Examples:
        examples: Examples = {}
        try:
            with closing(reader.parts(np.unique(np.concatenate([rows for _, rows in window])))) as parts:
                for part in parts:
                    if left.is_set():
                        break
                    examples |= part
        except ShiftdataError:
            pass
        return examples

    try:
        with closing(futures(fetch, _windows(reader, batches), 1)) as fetched:
            for window, future in fetched:
                for job, rows in window:
                    yield job, partial(_take, reader, rows, future)
    finally:
        left.set()


def _windows(
    reader: ExampleReader, batches: Iterable[tuple[Job, IntArray]]
) -> Iterator[list[tuple[Job, IntArray]]]:
    window: list[tuple[Job, IntArray]] = []
    size = most = 0
    for job, rows in batches:
        more = max(int(reader.lengths(rows).sum()), 1)
        if window and size + more > most:
            yield window
            window, size, most = [], 0, reader.ahead // 2
        window.append((job, rows))
        size += more
    if window:
        yield window


def _take(reader: ExampleReader, rows: IntArray, window: Future[Examples]) -> list[bytes]:
    examples, wanted = window.result(), rows.tolist()
    return reader.chosen(wanted, examples) if examples.keys() >= set(wanted) else reader.read(wanted)
