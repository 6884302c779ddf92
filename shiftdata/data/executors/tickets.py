"""Which job is next, and what becomes of one whose process died: the same rule for every executor."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic

from shiftdata.data.executors.executor import Job
from shiftdata.errors import ShiftdataError

#: How many times a job may lose its process before the job itself is to blame.
LOSSES = 3


class LostError(ShiftdataError):
    """A job of which too many processes died."""

    def __init__(self, message: str, job: Any) -> None:
        super().__init__(message)
        self.job = job


@dataclass(eq=False)
class Ticket(Generic[Job]):
    """A job that was given out, and how many processes died while they did it."""

    job: Job
    losses: int = 0


class Tickets(Generic[Job]):
    """Jobs to give out: first those that were lost, then new ones, drawn one at a time."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._new = iter(jobs)
        self._again: deque[Ticket[Job]] = deque()

    def take(self) -> Ticket[Job] | None:
        """The next job; None when there is no more at the moment."""
        if self._again:
            return self._again.popleft()
        return next((Ticket(job) for job in self._new), None)

    def lost(self, ticket: Ticket[Job], how: str) -> None:
        """Give a job out again, unless too many processes died of it; `how` says how the last one did."""
        ticket.losses += 1
        if ticket.losses >= LOSSES:
            raise LostError(
                f"{ticket.job!s:.200}: {ticket.losses} processes died while they did this, the last {how}; "
                "run the same command again, and it goes on where it stopped",
                ticket.job,
            )
        self._again.append(ticket)
