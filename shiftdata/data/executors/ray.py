"""Jobs on a Ray cluster: many machines, of which some may be lost and others may join."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
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
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.extras import require
from shiftdata.threads import available_cores

#: Jobs given out for each core of the cluster: one at work, and one that follows it.
QUEUED_PER_CORE = 2
#: Seconds between two counts of the cluster's cores.
COUNT_INTERVAL = 1.0
#: Ray prints each worker that it lost, and warns of a coming default; it reads this when it is imported.
QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": ".", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class Ray(Executor):
    """Each job is a task of one core, on whatever nodes there are; a process keeps what `work` has loaded.

    `address` names a running cluster as `ray.init` takes it ("auto": the one that this machine belongs to);
    without one, RAY_ADDRESS, or a cluster of this machine alone that ends with the jobs. At most
    `workers` jobs are out at a time. Left early, jobs end with the connection; one that was open before stays
    open, and its jobs are done.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self.address, self.workers = address, workers

    def run(self, work: Work[Job, Result], jobs: Iterable[Job | Barrier]) -> Generator[tuple[Job, Result]]:
        sent, tickets = pack("the work", work), Tickets(jobs)
        with self._connected() as ray:
            yield from self._run(ray, sent, tickets)

    def _run(self, ray: Any, sent: bytes, tickets: Tickets[Job]) -> Generator[tuple[Job, Any]]:
        # Ray's own retries do not say which job killed its worker, nor count.
        do, shared = ray.remote(num_cpus=1, max_retries=0)(attempt), ray.put(sent)
        running: dict[Any, Ticket[Job]] = {}
        most, counted = 0, 0.0
        while True:
            if time.monotonic() - counted > COUNT_INTERVAL:
                most, counted = self._most(ray), time.monotonic()
            while len(running) < most and (ticket := tickets.take(len(running))):
                running[do.remote(shared, pack("a job", ticket.job))] = ticket
            if not running:
                return
            done, _ = ray.wait(list(running), timeout=COUNT_INTERVAL)
            for reference in done:
                ticket = running.pop(reference)
                if (outcome := _outcome(ray, reference, ticket, tickets)) is not None:
                    yield ticket.job, result(outcome)

    def _most(self, ray: Any) -> int:
        """Return the number of jobs that may be out; nodes come and go."""
        cores = int(ray.cluster_resources().get("CPU", 0))
        if not cores:
            warnings.warn("no node of the Ray cluster has a core: waiting for one to join", stacklevel=2)
        return self.workers or max(1, cores * QUEUED_PER_CORE)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Connect, and yield the ray module; the connection ends with the block unless it was open before."""
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        ray = require("ray", "the executor Ray")
        if ray.is_initialized():
            yield ray
            return
        options: dict[str, Any] = {"address": self.address}
        if self.address is None and "RAY_ADDRESS" not in os.environ:
            cores = self.workers or available_cores()  # "local": not one that somebody else has started here
            options = {"address": "local", "num_cpus": cores, "include_dashboard": False}
        try:
            if self.address and ":" in self.address and "://" not in self.address:
                host, _, port = self.address.rpartition(":")  # Ray itself would try for minutes
                socket.create_connection((host, int(port)), timeout=5).close()
            ray.init(**options, log_to_driver=False, logging_level="error")
        except (OSError, ValueError) as error:
            address = self.address or os.environ.get("RAY_ADDRESS")
            raise InputError(
                f"no Ray cluster answers at {address}: start one by `ray start --head`, and its other nodes "
                "by `ray start --address=...`; if it asks for a token, set RAY_AUTH_MODE=token here too "
                f"({error})"
            ) from error
        try:
            yield ray
        finally:
            # This ends the jobs that are still out. `ray.cancel` would too, but if one ends at that moment,
            # Ray 2.60 aborts the process ("Tried to complete task that was not pending"), with status 1.
            with suppress(Exception):  # such as a lost connection: it must not hide why the jobs end
                ray.shutdown()


def _outcome(ray: Any, reference: Any, ticket: Ticket[Any], tickets: Tickets[Any]) -> Any:
    """Return the outcome of a job; None when its worker or node was lost, and the job is given out again."""
    try:
        return ray.get(reference)
    except (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError) as error:
        raise ShiftdataError(
            f"a node of the Ray cluster cannot do any job: {error}; every node needs the same shiftdata"
        ) from error
    except ray.exceptions.RayError as error:
        tickets.lost(
            ticket, f"by {type(error).__name__}: most likely for lack of memory, so use fewer --workers"
        )
        return None
