"""Jobs in a pool of processes on this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterable
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from shiftdata.data.executors.base import (
    Barrier,
    Executor,
    Job,
    Result,
    Ticket,
    Tickets,
    Work,
    attempt,
    pack,
    result,
)

#: Seconds in which a process without a connection must end.
END_TIMEOUT = 5.0
#: Seconds between two looks for processes that died unseen.
LOOK_INTERVAL = 1.0


class Pool(Executor):
    """Some processes, which end with their parent however that ends. One that dies is replaced."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, work: Work[Job, Result], jobs: Iterable[Job | Barrier]) -> Generator[tuple[Job, Result]]:
        sent, tickets = pack("the work", work), Tickets(jobs)
        idle: list[_Worker] = []
        running: dict[_Worker, Ticket[Job]] = {}

        def give_out(done: int) -> None:
            while len(running) < self.workers and (ticket := tickets.take(done + len(running))):
                job = pack("a job", ticket.job)
                worker = idle.pop() if idle else _Worker(sent)
                running[worker] = ticket
                worker.give(job)

        try:
            give_out(0)
            while running:
                done: list[tuple[Job, bytes]] = []
                for worker in _answering(running):
                    ticket = running.pop(worker)
                    if (outcome := worker.outcome()) is None:
                        tickets.lost(ticket, worker.end(END_TIMEOUT))
                    else:
                        idle.append(worker)
                        done.append((ticket.job, outcome))
                give_out(len(done))  # before the caller has the results: it may take its time over them
                for job, outcome in done:
                    yield job, result(outcome)
                give_out(0)  # what is behind a barrier
        finally:
            for worker in running:
                worker.end()
            for worker in idle:
                worker.connection.close()
            for worker in idle:
                worker.end(END_TIMEOUT)


class _Worker:
    """A process and the connection to it."""

    def __init__(self, work: bytes) -> None:
        context = get_context("spawn")  # a fork would copy the locks of threads that are not there
        self.connection, their_end = context.Pipe()
        # Not a daemon, which may not have children, such as the workers of a loader.
        self.process = context.Process(target=_serve, args=(their_end,))
        threads = os.environ.get("OMP_NUM_THREADS")
        os.environ["OMP_NUM_THREADS"] = threads or "1"  # read when numpy or torch is imported
        try:
            self.process.start()
        finally:
            if threads is None:
                del os.environ["OMP_NUM_THREADS"]
            their_end.close()
        self.give(work)

    def give(self, data: bytes) -> None:
        """Send the work, and then jobs, each when the process is idle: it must be there to receive them."""
        with suppress(OSError):  # it died, as `outcome` will say
            self.connection.send_bytes(data)

    def outcome(self) -> bytes | None:
        """Return the outcome of the job; None when the process died."""
        try:
            return self.connection.recv_bytes() if self.connection.poll() else None
        except (EOFError, OSError):
            return None

    def end(self, timeout: float = 0.0) -> str:
        """Kill the process, if it does not end by itself, and return how it ended."""
        self.connection.close()
        if self.process.exitcode is None:  # `join` would wait for a child that a dead process has left
            self.process.join(timeout)
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        if code == -9:  # no name: Windows has no SIGKILL
            return "by SIGKILL, most likely for lack of memory: use fewer --workers"
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        return f'{how}: see what it printed, and use `if __name__ == "__main__":` in a script'


def _answering(workers: Iterable[_Worker]) -> list[_Worker]:
    """Wait until workers have done their job, or died."""
    connections: dict[Any, _Worker] = {worker.connection: worker for worker in workers}
    while True:
        ready = [connections[connection] for connection in wait(list(connections), LOOK_INTERVAL)]
        # A child that it left may keep the connection of a dead one open.
        dead = {worker for worker in connections.values() if worker.process.exitcode is not None}
        if ready or dead:
            return [*ready, *dead.difference(ready)]


def _serve(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker at once
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # the parent has closed the connection
        work = connection.recv_bytes()
        while True:
            connection.send_bytes(attempt(work, connection.recv_bytes()))


def _exit_with_parent() -> None:
    """Exit when the parent is killed, instead of going on with the job."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
