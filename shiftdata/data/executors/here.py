"""Jobs in the process that asks for them, one after the other."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from shiftdata.data.executors.executor import Executor, Job, Result, Work


class Here(Executor):
    """Does each job when its result is asked for: for few jobs, and for finding errors."""

    def run(self, work: Work[Job, Result], jobs: Iterable[Job]) -> Generator[tuple[Job, Result]]:
        do = work()
        for job in jobs:
            yield job, do(job)
