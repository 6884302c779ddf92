"""Several processes that do the same jobs together, each started by itself, as in a Slurm array."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import SystemRandom
from typing import Any

from shiftdata.data.executors.base import Executor, Job, Result, Work
from shiftdata.errors import InputError


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
        """Return the rank of this process in a Slurm array or by srun, and the variables behind it."""
        array, step = "SLURM_ARRAY_TASK_ID", "SLURM_PROCID"
        tasks = "SLURM_STEP_NUM_TASKS" if array in environ else "SLURM_NTASKS"
        number, world, names = 0, 1, []
        for own, all_ in ((array, "SLURM_ARRAY_TASK_COUNT"), (step, tasks)):
            if own in environ and all_ in environ:
                world *= int(environ[all_])
                # Tasks of an array count from any number: two with one rank only start with the same jobs.
                number = number * int(environ[all_]) + int(environ[own]) % int(environ[all_])
                names += [own, all_]
        if not names:
            raise InputError(
                f"there is neither {array} with its COUNT nor {step} with {tasks}: start this by `sbatch "
                "--array=0-7` or by `srun --ntasks=8`, or give --rank and --world"
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

    def run(self, work: Work[Job, Result], jobs: Iterable[Job]) -> Generator[tuple[Job, Result]]:
        yield from self.executor.run(work, self._in_turn(list(jobs)))

    def _in_turn(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Yield the shares in random order: two processes that do the same share seldom do the same job."""
        number, world = self.rank.number, self.rank.world
        for share in (jobs[number::world], [job for n, job in enumerate(jobs) if n % world != number]):
            left = list(self.missing(share)) if share else []
            SystemRandom().shuffle(left)
            yield from left
