"""The contract of executors, the rule for jobs whose process died, and what processes send each other."""

from __future__ import annotations

import pickle
import platform
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from shiftdata.errors import InputError, ShiftdataError

Job = TypeVar("Job")
Result = TypeVar("Result")
Loaded = TypeVar("Loaded")

#: Called once in each process before its first job: it loads what all jobs need, and returns the function
#: that does one. It is pickled, as jobs and results are. A job may be done twice, so it must do the same
#: each time.
Work: TypeAlias = Callable[[], Callable[[Job], Result]]
#: The number of processes that a job may lose before the job itself is to blame.
LOSSES = 3


class Executor(ABC):
    """Runs jobs that do not depend on each other."""

    @abstractmethod
    def run(self, work: Work[Job, Result], jobs: Iterable[Job]) -> Generator[tuple[Job, Result]]:
        """Yield each job with its result as it is done, in any order; the first error of a job is raised.

        Jobs are drawn as they are needed, a few ahead of the processes. A job whose process dies is given out
        again; one that loses its process `LOSSES` times is an error. Close the generator to leave early.
        """


class Here(Executor):
    """Does each job in this process when its result is needed: for few jobs, and for finding errors."""

    def run(self, work: Work[Job, Result], jobs: Iterable[Job]) -> Generator[tuple[Job, Result]]:
        do = work()
        for job in jobs:
            yield job, do(job)


class LostError(ShiftdataError):
    """A job of which too many processes died."""

    def __init__(self, message: str, job: Any) -> None:
        super().__init__(message)
        self.job = job


class Ticket(NamedTuple, Generic[Job]):
    """A job that was given out, and the number of processes that died while they did it."""

    job: Job
    losses: int = 0


class Tickets(Generic[Job]):
    """Jobs to give out: first those that were lost, then new ones, drawn one at a time."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._new = map(Ticket[Job], jobs)
        self._again: deque[Ticket[Job]] = deque()

    def take(self) -> Ticket[Job] | None:
        """Return the next job; None when there is none at the moment."""
        return self._again.popleft() if self._again else next(self._new, None)

    def lost(self, ticket: Ticket[Job], how: str) -> None:
        """Give a job out again, unless too many processes died of it; `how` describes the last death."""
        ticket = ticket._replace(losses=ticket.losses + 1)
        if ticket.losses >= LOSSES:
            raise LostError(
                f"{ticket.job!s:.200}: {ticket.losses} processes died while they did this, the last {how}; "
                "run the same command again, and it goes on where it stopped",
                ticket.job,
            )
        self._again.append(ticket)


def pack(name: str, value: object) -> bytes:
    """Pickle a value for another process."""
    try:
        return pickle.dumps(value)
    except Exception as error:  # whatever the `__reduce__` of anybody's class raises
        raise InputError(
            f"{name} cannot be sent to another process ({error}): {value!r:.200}; use functions and classes "
            "at the top of a module, and values that can be pickled"
        ) from error


def attempt(work: bytes, job: bytes) -> bytes:
    """Do a job in this process, which keeps what the work has loaded; return its packed outcome."""
    try:
        return pack("the result of a job", (_loaded(work)(pickle.loads(job)), None))
    except BaseException as error:  # it is raised where the result is awaited
        lines = traceback.format_exception(error)
        if not isinstance(error, ShiftdataError):
            error.add_note(f"In a worker:\n{''.join(lines)}")
        try:
            outcome = pickle.dumps((None, error))
            pickle.loads(outcome)
        except Exception:  # such as an `__init__` that takes other arguments than it hands on
            return pickle.dumps((None, RuntimeError(lines[-1].strip())))
        return outcome


def result(outcome: bytes) -> Any:
    """Return the result of a job, or raise its error."""
    value, error = pickle.loads(outcome)
    if error is not None:
        raise error
    return value


@lru_cache(maxsize=1)
def _loaded(work: bytes) -> Any:
    return pickle.loads(work)()


def alike(work: Callable[[], Loaded], versions: Callable[[], Mapping[str, str]]) -> Callable[[], Loaded]:
    """Make work that refuses to start in a process where `versions` differ from those of this one."""
    return partial(_start_alike, work, versions, dict(versions()))


def _start_alike(
    work: Callable[[], Loaded], versions: Callable[[], Mapping[str, str]], expected: Mapping[str, str]
) -> Loaded:
    check_alike(f"the node {platform.node()}", versions(), expected)
    return work()


def check_alike(who: str, given: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Refuse a process whose versions differ from those expected."""
    if names := sorted({name for name, _ in expected.items() ^ given.items()}):
        parts = [f"{name} {given.get(name)}, not {expected.get(name)}" for name in names]
        raise InputError(f"{who} has {'; '.join(parts)}: install the same on every node")


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """Measure seconds, processor seconds and, on Linux, the peak memory of the block."""
    cost: dict[str, Any] = {}
    with suppress(OSError):  # reset the peak memory of what this process did before
        Path("/proc/self/clear_refs").write_text("5")
    begun, used = time.monotonic(), time.process_time()
    yield cost
    cost |= {"seconds": time.monotonic() - begun, "processor_seconds": time.process_time() - used}
    with suppress(OSError, IndexError):
        status = Path("/proc/self/status").read_text()
        cost["peak_memory"] = 1024 * int(status.partition("VmHWM:")[2].split()[0])
