"""What every executor does: jobs in, each with its result out, as they are done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import TypeAlias, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Called once in each process before its first job: it loads what all jobs need, and gives the function
#: that does one. It is pickled, as jobs and results are. A job may be done twice, so it must do the same
#: each time.
Work: TypeAlias = Callable[[], Callable[[Job], Result]]


class Executor(ABC):
    """Runs jobs that do not depend on each other."""

    @abstractmethod
    def run(self, work: Work[Job, Result], jobs: Iterable[Job]) -> Generator[tuple[Job, Result]]:
        """Give each job with its result as it is done, in any order; the first error of a job is raised.

        Jobs are drawn as they are needed, a few ahead of the processes. A job whose process dies is given out
        again; one that loses its process `LOSSES` times is an error. Close the generator to leave early.
        """
