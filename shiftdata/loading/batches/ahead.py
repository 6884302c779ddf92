"""Work done ahead by a few threads, its results in the order of the jobs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias, TypeVar

Job = TypeVar("Job")
Made = TypeVar("Made")
Todo: TypeAlias = "SimpleQueue[tuple[Future[Made], Job] | None]"

#: Jobs that each thread may be ahead of the caller.
AHEAD = 2
#: Seconds to wait for threads that are still at work when the caller has left, say on a slow network.
PATIENCE = 1.0


def ahead(make: Callable[[Job], Made], jobs: Iterable[Job], workers: int) -> Generator[Made]:
    """What `make` gives for each job, in order. An error comes in its turn.

    With no workers the caller's thread makes each when it is asked for. Close the iterator to leave early.
    """
    if not workers:
        yield from map(make, jobs)
        return
    todo: Todo[Made, Job] = SimpleQueue()
    pending: deque[Future[Made]] = deque()
    # Daemons: an executor's threads would keep Ctrl-C waiting for a read that hangs.
    threads = [Thread(target=_work, args=(todo, make), daemon=True) for _ in range(workers)]
    try:
        for thread in threads:
            thread.start()
        for job in jobs:
            pending.append(Future())
            todo.put((pending[-1], job))
            if len(pending) == AHEAD * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        for _ in threads:
            todo.put(None)
        until = time.monotonic() + PATIENCE
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


def _work(todo: Todo[Made, Job], make: Callable[[Job], Made]) -> None:
    while _one(todo, make):
        pass


def _one(todo: Todo[Made, Job], make: Callable[[Job], Made]) -> bool:
    """Do one job. A function of its own, so that a waiting thread holds no result in memory."""
    task = todo.get()
    if task is None:
        return False
    future, job = task
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(make(job))
        except BaseException as error:  # it is the caller's, in its turn
            future.set_exception(error)
    return True
