"""Do some work in threads that nobody has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeVar

Job = TypeVar("Job")
Done = TypeVar("Done")


def in_threads(work: Callable[[Job], Done], jobs: Sequence[Job], count: int) -> Iterator[Done]:
    """The results of some jobs as they are done, by at most `count` threads; the first error is raised.

    The threads are daemons, and last no longer than the jobs: a program that is interrupted while a server
    is slow ends at once, which one with a pool of `concurrent.futures` does not.
    """
    if count == 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    waiting: SimpleQueue[Job] = SimpleQueue()
    done: SimpleQueue[Done | _Failure] = SimpleQueue()
    stop = threading.Event()

    def run() -> None:
        with suppress(Empty):
            while not stop.is_set():
                done.put(_tried(work, waiting.get_nowait()))

    for job in jobs:
        waiting.put(job)
    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(count, len(jobs)))]
    for thread in threads:
        thread.start()
    try:
        for _ in jobs:
            result = done.get()
            if isinstance(result, _Failure):
                raise result.error
            yield result
    finally:
        stop.set()
    for thread in threads:
        thread.join()


@dataclass(frozen=True)
class _Failure:
    """What a job raised, to be raised again where results are taken."""

    error: BaseException


def _tried(work: Callable[[Job], Done], job: Job) -> Done | _Failure:
    try:
        return work(job)
    except BaseException as error:
        return _Failure(error)
