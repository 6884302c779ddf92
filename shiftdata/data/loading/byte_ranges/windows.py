"""Read ahead in an order that is known: windows that slide over it, whose rows are fetched as they lie.

The order of an epoch is known from its start, so a row need not wait for its turn. The order is cut into
windows of consecutive batches, and several of them are under way or wait in memory: their requests stand in
one queue, so that no connection is idle while a window is handed out. As soon as one has been handed out, the
next is asked for. The first is one batch, so that an epoch begins at once.

Where the place gives several ranges by one request, neighbours gain little: windows are small, grow from
batch to batch, and many are under way. Where each range is a request, a window is half of the bytes that may
wait, since the more rows it has the more are neighbours; windows that grow would tear these apart.

All threads of a process share the windows. A row is fetched again only where a later window draws it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.byte_ranges.reader import ExampleReader, Request
from shiftdata.errors import ShiftdataError
from shiftdata.threads import Workers, futures

Job = TypeVar("Job")
#: The examples of a request, by position.
Examples: TypeAlias = dict[int, bytes]
#: A batch, and what waits for its examples.
Taken: TypeAlias = tuple[Job, Callable[[], list[bytes]]]

#: The part of the bytes that may wait that is one window, where ranges are many to a request, or one.
SEVERAL, SINGLE = 1 / 6, 1 / 2
#: How many times as large as the one before a window may be.
GROWTH = 4


def read_ahead(
    reader: ExampleReader, batches: Iterable[tuple[Job, IntArray]]
) -> Generator[tuple[Job, Callable[[], list[bytes]]]]:
    """Each batch that has some rows, and what waits for their examples.

    Close the generator to leave early. What cannot be read with its window is read with its batch, so that an
    error comes in its turn.
    """
    if not reader.ahead:
        with closing(futures(lambda batch: reader.read(batch[1].tolist()), batches, 1)) as read:
            for (job, _), future in read:
                yield job, future.result
        return

    def work(request: Request) -> Examples:
        return reader.fetch(request, is_full=workers.waiting > 0)

    windows, waiting = _Windows(reader, batches), deque[_Window[Job]]()
    workers = Workers(work, reader.pace.requests)
    with closing(workers):
        try:
            while True:
                while window := windows.next(sum(window.size for window in waiting)):
                    window.ask(reader, workers)
                    waiting.append(window)
                if not waiting:
                    return
                for job, rows in waiting[0].batches:
                    yield job, partial(waiting[0].take, reader, rows)
                waiting.popleft()
        finally:
            while waiting:
                waiting.popleft().cancel()


class _Window(Generic[Job]):
    """Some batches, and the requests for their rows."""

    def __init__(self, batches: list[tuple[Job, IntArray]], size: int) -> None:
        self.batches, self.size = batches, size
        self._requests: list[Future[Examples]] = []
        self._examples: Examples | None = None

    def ask(self, reader: ExampleReader, workers: Workers[Request, Examples]) -> None:
        try:
            requests = reader.requests(np.unique(np.concatenate([rows for _, rows in self.batches])))
        except ShiftdataError:
            return
        workers.grow(reader.pace.requests)  # by now it is known how far the place is
        self._requests = [workers.submit(request) for request in requests]
        if reader.gives_several is None:
            wait(self._requests, return_when=FIRST_COMPLETED)  # the next windows depend on it

    def cancel(self) -> None:
        for request in self._requests:
            request.cancel()

    def take(self, reader: ExampleReader, rows: IntArray) -> list[bytes]:
        """Return the examples of a batch."""
        wanted = rows.tolist()
        examples = self._examples
        if examples is None:
            examples = {}
            for request in wait(self._requests).done:
                if not request.cancelled() and request.exception() is None:
                    examples |= request.result()
            self._examples = examples  # two threads may do so at once, with the same result
        return reader.chosen(wanted, examples) if examples.keys() >= set(wanted) else reader.read(wanted)


class _Windows(Generic[Job]):
    """Cuts batches into windows, each when there is room for it."""

    def __init__(self, reader: ExampleReader, batches: Iterable[tuple[Job, IntArray]]) -> None:
        self._reader, self._batches = reader, iter(batches)
        self._next: tuple[tuple[Job, IntArray], int] | None = None
        self._last = 0

    def next(self, waiting: int) -> _Window[Job] | None:
        """Return the next window if its bytes fit beside those that wait; None also after the last."""
        ahead, several = self._reader.ahead, self._reader.gives_several
        most = int(ahead * (SEVERAL if several else SINGLE))
        if several is not False:
            most = min(most, self._last * GROWTH)
        if waiting and waiting + most > ahead:
            return None
        batches, size = list[tuple[Job, IntArray]](), 0
        for batch, more in self._sized():
            if batches and size + more > most:
                self._next = batch, more
                break
            batches.append(batch)
            size += more
        self._last = size
        return _Window(batches, size) if batches else None

    def _sized(self) -> Iterator[tuple[tuple[Job, IntArray], int]]:
        if self._next is not None:
            sized, self._next = self._next, None
            yield sized
        for batch in self._batches:
            yield batch, max(int(self._reader.lengths(batch[1]).sum()), 1)
