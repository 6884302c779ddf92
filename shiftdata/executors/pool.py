"""Jobs in a pool of processes on this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context, parent_process
from typing import Any

from shiftdata.errors import InputError, ShiftdataError
from shiftdata.executors.executor import Executor, Job, Result, Work

#: Jobs that each process may be ahead of the caller.
QUEUED_PER_WORKER = 4


class Pool(Executor):
    """Some processes, which end with their parent however that ends."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise InputError(f"a pool has at least 1 worker, got {workers}")
        self.workers = workers

    def run(self, work: Work[Job, Result], jobs: Iterable[Job]) -> Generator[tuple[Job, Result]]:
        context = get_context("spawn")  # a fork would copy the locks of threads that are not there
        with ProcessPoolExecutor(self.workers, context, _start, (work,)) as pool:
            try:
                yield from self._feed(pool, iter(jobs))
            except BrokenProcessPool as error:
                raise ShiftdataError(
                    "a worker process died, most likely for lack of memory; "
                    "run the same command again with fewer --workers, it goes on where it stopped"
                ) from error
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _feed(self, pool: ProcessPoolExecutor, jobs: Iterable[Job]) -> Generator[tuple[Job, Any]]:
        """Keep a bounded number of jobs in the pool."""
        running: dict[Future[Any], Job] = {}
        while True:
            for job in islice(jobs, self.workers * QUEUED_PER_WORKER - len(running)):
                running[pool.submit(_do_one, job)] = job
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


_do: Callable[[Any], Any] | None = None


def _start(work: Work[Any, Any]) -> None:
    global _do  # the pool offers no other place for what a process keeps between jobs
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker at once
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    _do = work()


def _exit_with_parent() -> None:
    """A pool whose parent was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do_one(job: Any) -> Any:
    if _do is None:
        raise RuntimeError("a worker was not started by _start")
    return _do(job)
