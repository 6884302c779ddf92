"""The threads of a verification, and what they tell while they work."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from shiftdata.errors import ShiftdataError

#: Files of a remote dataset that are on this machine at a time: they wait for the network, not for cores.
REMOTE_FILES = 4
QUEUED_PER_CORE = 2

T = TypeVar("T")
R = TypeVar("R")


class _Stopped(ShiftdataError):
    """The verification was given up, so its threads end."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What is called while a verification goes on, one call at a time."""

    on_file: Callable[[str], object] | None = None
    on_bytes: Callable[[int], object] | None = None
    on_rows: Callable[[int], object] | None = None
    on_note: Callable[[str], object] | None = None


@dataclass
class Work:
    """Threads for whole files, which wait for disks and the rows of their file, and threads for rows.

    Hashing and decoding release the interpreter's lock, so threads use every core.
    """

    listener: Listener
    remote: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Work:
        self._cores = (
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        )
        self._files = ThreadPoolExecutor(max(self._cores, REMOTE_FILES) if self.remote else self._cores)
        self._rows = ThreadPoolExecutor(self._cores)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stop.set()
        for pool in (self._files, self._rows):
            pool.shutdown(cancel_futures=True)

    def hashed(self, path: str) -> None:
        """Tell that a file was read and hashed."""
        self._tell(self.listener.on_file, path)

    def bytes(self, count: int) -> None:
        """Tell how many more bytes were fetched or hashed."""
        self._tell(self.listener.on_bytes, count)

    def rows(self, count: int) -> None:
        """Tell how many more rows were checked."""
        self._tell(self.listener.on_rows, count)

    def note(self, text: str) -> None:
        """Tell what could not be looked at."""
        self._tell(self.listener.on_note, text)

    def each(self, act: Callable[[T], R], files: Iterable[T]) -> list[R]:
        """Do something with each file, some at a time."""
        return [future.result() for future in [self._files.submit(act, file) for file in files]]

    def flow(self, act: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Do something with each part of a file, in order, with few parts in memory at a time."""
        running: deque[Future[R]] = deque()
        for part in parts:
            running.append(self._rows.submit(act, part))
            if len(running) >= QUEUED_PER_CORE * self._cores:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()

    def _tell(self, listener: Callable[[Any], object] | None, what: object) -> None:
        with self._lock:
            if self._stop.is_set():
                raise _Stopped
            if listener is not None:
                listener(what)
