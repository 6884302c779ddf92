"""Work in threads that do not delay the exit of an interrupted program."""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeAlias, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
Todo: TypeAlias = "SimpleQueue[tuple[Future[Result], Job] | None]"

#: The jobs that each thread may be ahead of the caller.
AHEAD = 2
#: Seconds to wait for threads that are still at work when the caller has left, say on a slow network.
JOIN_TIMEOUT = 1.0


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ahead(
    work: Callable[[Job], Result],
    jobs: Iterable[Job],
    workers: int,
    *,
    queued: int = AHEAD,
) -> Generator[Result]:
    """Yield the result of each job, in order, computed by a few threads ahead of the caller.

    An error is raised in its turn. With no workers the caller's thread does each job when it is due. Close
    the generator to leave early; threads still at work are waited for `JOIN_TIMEOUT` seconds.
    """
    if not workers:
        yield from map(work, jobs)
        return
    with closing(futures(work, jobs, workers, queued=queued)) as pairs:
        for _, future in pairs:
            yield future.result()
            del future  # while the caller works, its result is the caller's


def futures(
    work: Callable[[Job], Result],
    jobs: Iterable[Job],
    workers: int,
    *,
    queued: int = AHEAD,
) -> Generator[tuple[Job, Future[Result]]]:
    """Yield each job with the future of its result, as `ahead` yields results."""
    pending: deque[tuple[Job, Future[Result]]] = deque()
    with closing(Workers(work, workers)) as threads:
        try:
            for job in jobs:
                pending.append((job, threads.submit(job)))
                if len(pending) == queued * workers:
                    yield pending.popleft()
            while pending:
                yield pending.popleft()
        finally:
            while pending:
                pending.popleft()[1].cancel()


class Workers(Generic[Job, Result]):
    """Threads that do jobs in the order in which they come, until they are closed."""

    def __init__(self, work: Callable[[Job], Result], count: int) -> None:
        self._work = work
        self._todo: Todo[Result, Job] = SimpleQueue()
        self._threads: list[Thread] = []
        # A daemon that decodes as the interpreter goes down aborts it.
        atexit.register(self.close)
        self.grow(count)

    def grow(self, count: int) -> None:
        """Have at least `count` threads."""
        while len(self._threads) < count:
            # Daemons: an executor's threads would keep Ctrl-C waiting for a read that hangs.
            self._threads.append(Thread(target=_serve, args=(self._todo, self._work), daemon=True))
            self._threads[-1].start()

    def submit(self, job: Job) -> Future[Result]:
        """Return the future of a job's result."""
        future: Future[Result] = Future()
        self._todo.put((future, job))
        return future

    @property
    def waiting(self) -> int:
        """The number of jobs that no thread has begun."""
        return self._todo.qsize()

    def close(self) -> None:
        """End the threads after what was submitted and not cancelled; wait `JOIN_TIMEOUT` seconds for it."""
        if not self._threads:  # at the program's end modules may be gone
            return
        atexit.unregister(self.close)
        for _ in self._threads:
            self._todo.put(None)
        until = time.monotonic() + JOIN_TIMEOUT
        while self._threads:
            self._threads.pop().join(max(0.0, until - time.monotonic()))


def in_threads(work: Callable[[Job], Result], jobs: Sequence[Job], count: int) -> Generator[Result]:
    """Yield the results of jobs, in order, by at most `count` threads; the first error is raised."""
    workers = min(count, len(jobs))
    return ahead(work, jobs, workers if workers > 1 else 0, queued=len(jobs))


def _serve(todo: Todo[Result, Job], work: Callable[[Job], Result]) -> None:
    while _serve_one(todo, work):
        pass


def _serve_one(todo: Todo[Result, Job], work: Callable[[Job], Result]) -> bool:
    """Do one job. A function of its own, so that a waiting thread keeps no result in memory."""
    task = todo.get()
    if task is None:
        return False
    future, job = task
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work(job))
        except BaseException as error:  # it is the caller's, in its turn
            future.set_exception(error)
    return True


@contextmanager
def torch_threads(number: int = 1) -> Iterator[None]:
    """Set the number of threads of torch; with 1, sums are equal for any number of cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
