"""The contract of executors, jobs whose process died, what processes send, ranks that share jobs."""

from __future__ import annotations

import os
import pickle
import platform
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from random import SystemRandom
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from shiftdata.errors import InputError, ShiftdataError
from shiftdata.threads import futures

Job = TypeVar("Job")
Result = TypeVar("Result")
Loaded = TypeVar("Loaded")


class _Barrier(Enum):
    BARRIER = "a barrier"


#: Among jobs: those behind it are drawn, so may be chosen, when the caller has all results of those before.
BARRIER: Final = _Barrier.BARRIER
Barrier: TypeAlias = Literal[_Barrier.BARRIER]
#: Called once in each process before its first job: it loads what all jobs need, and returns the function
#: that does one. It is pickled, as jobs and results are. A job may be done twice, so it must do the same
#: each time.
Work: TypeAlias = Callable[[], Callable[[Job], Result]]
#: The number of processes that a job may lose before the job itself is to blame.
LOSSES = 3


class Executor(ABC):
    """Runs jobs of which none needs the result of another, but behind a `BARRIER` those of all before it."""

    @abstractmethod
    def run(self, work: Work[Job, Result], jobs: Iterable[Job | Barrier]) -> Generator[tuple[Job, Result]]:
        """Yield each job with its result as it is done, in any order; the first error of a job is raised.

        Jobs are drawn as they are needed, a few ahead of the processes. A job whose process dies is given out
        again; one that loses its process `LOSSES` times is an error. Close the generator to leave early.
        """


class Here(Executor):
    """Does each job in this process when its result is needed: for few jobs, and for finding errors."""

    def run(self, work: Work[Job, Result], jobs: Iterable[Job | Barrier]) -> Generator[tuple[Job, Result]]:
        do = work()
        for job in jobs:
            if job is not BARRIER:
                yield job, do(job)


class Threads(Executor):
    """Does jobs in threads of this process: for those that spend their time outside of Python, as reading."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, work: Work[Job, Result], jobs: Iterable[Job | Barrier]) -> Generator[tuple[Job, Result]]:
        do, left = work(), iter(jobs)
        for first in left:
            with closing(futures(do, _stage(first, left), self.workers)) as done:
                for job, future in done:
                    yield job, future.result()


def _stage(first: Job | Barrier, left: Iterator[Job | Barrier]) -> Iterator[Job]:
    """Draw jobs up to a barrier."""
    for job in chain([first], left):
        if job is BARRIER:
            return
        yield job


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

    def __init__(self, jobs: Iterable[Job | Barrier]) -> None:
        self._new = iter(jobs)
        self._again: deque[Ticket[Job]] = deque()
        self._at_barrier = False

    def take(self, awaited: int) -> Ticket[Job] | None:
        """Return the next job; None when there is none while the caller awaits that many results."""
        if self._again:
            return self._again.popleft()
        if self._at_barrier and awaited:
            return None
        job = next(self._new, None)
        while job is BARRIER and not awaited:
            job = next(self._new, None)
        self._at_barrier = job is BARRIER
        return None if job is None or job is BARRIER else Ticket(job)

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
            f"{name} cannot be sent to another process ({error}): {value!r:.200}; use what can be pickled, "
            "such as functions and classes at the top of a module"
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


@dataclass(frozen=True)
class Rank:
    """A process among `world` of them, counted from 0."""

    number: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.world:
            raise InputError(
                f"there is no rank {self.number} of {self.world}: ranks count from 0 to world - 1"
            )

    def __str__(self) -> str:
        return f"rank {self.number} of {self.world}"

    @classmethod
    def of_slurm(cls, environ: Mapping[str, str] = os.environ) -> tuple[Rank, str]:
        """Return the rank that Slurm gave this process, in an array or by srun, and the variables behind it.

        Tasks of an array that were started again, such as 3 and 5 of 8, are ranks among those that were.
        """
        array, step = "SLURM_ARRAY_TASK_ID", "SLURM_PROCID"
        tasks = "SLURM_STEP_NUM_TASKS" if array in environ else "SLURM_NTASKS"
        try:
            number, world, names = 0, 1, []
            if array in environ:
                first = int(environ.get("SLURM_ARRAY_TASK_MIN", 0))
                stride = int(environ.get("SLURM_ARRAY_TASK_STEP", 1))
                world = int(environ["SLURM_ARRAY_TASK_COUNT"])
                number = (int(environ[array]) - first) // stride % world
                names += [array, "SLURM_ARRAY_TASK_COUNT"]
            if step in environ and tasks in environ:
                number = number * int(environ[tasks]) + int(environ[step])
                world *= int(environ[tasks])
                names += [step, tasks]
        except (KeyError, ValueError, ZeroDivisionError) as error:
            raise InputError(
                f"the SLURM_* variables say no rank ({error!r}): give --rank and --world"
            ) from error
        if not names:
            raise InputError(
                f"there is neither {array} nor {step} with {tasks}: start this by `sbatch --array=0-7` or by "
                "`srun --ntasks=8`, or give --rank and --world"
            )
        return cls(number, world), ", ".join(f"{name}={environ[name]}" for name in names)


#: The only process.
ALONE = Rank()


class Ranks(Executor):
    """The jobs of one rank: first those of its own share, then what is left of the shares of other ranks.

    A rank that is lost costs no more than what it was doing. `missing` returns those jobs that nobody has
    done; the work should check again before it starts, for two ranks may be about to do the same job. Each
    rank is given all jobs in the same order, and yields those that it drew.
    """

    def __init__(
        self, executor: Executor, rank: Rank, missing: Callable[[Sequence[Any]], Iterable[Any]]
    ) -> None:
        self.executor, self.rank, self.missing = executor, rank, missing

    def run(self, work: Work[Job, Result], jobs: Iterable[Job | Barrier]) -> Generator[tuple[Job, Result]]:
        yield from self.executor.run(work, self._in_turn(jobs))

    def _in_turn(self, jobs: Iterable[Job | Barrier]) -> Iterator[Job | Barrier]:
        """Yield the jobs between two barriers, and wait for none: what is missing then is done here."""
        stage: list[Job] = []
        for job in jobs:
            if job is not BARRIER:
                stage.append(job)
                continue
            yield from self._shares(stage)
            yield BARRIER
            stage = []
        yield from self._shares(stage)

    def _shares(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Yield the shares in random order: two processes that do the same share seldom do the same job."""
        number, world = self.rank.number, self.rank.world
        for share in (jobs[number::world], [job for n, job in enumerate(jobs) if n % world != number]):
            left = list(self.missing(share)) if share else []
            SystemRandom().shuffle(left)
            yield from left
