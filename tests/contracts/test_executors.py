"""What every executor does, and what becomes of jobs whose process dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shiftdata.data.executors import BARRIER, LOSSES, Executor, Here, Pool, Rank, Ranks, Ray, Threads, alike
from shiftdata.errors import InputError, ShiftdataError
from tests import jobs
from tests.jobs import work
from tests.ray_cluster import ray_cluster

SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray cluster of two nodes with a core each."""
    with ray_cluster() as nodes:
        nodes.add_node(num_cpus=1)
        yield nodes


@pytest.fixture(params=["here", "threads", "pool", pytest.param("ray", marks=SLOW)])
def executor(request: pytest.FixtureRequest) -> Executor:
    if request.param == "ray":
        return Ray(request.getfixturevalue("cluster").address)
    return {"here": Here(), "threads": Threads(2), "pool": Pool(2)}[request.param]


@pytest.fixture(params=["pool", pytest.param("ray", marks=SLOW)])
def processes(request: pytest.FixtureRequest) -> Executor:
    """An executor with processes of its own."""
    return Ray(request.getfixturevalue("cluster").address) if request.param == "ray" else Pool(2)


def results(executor: Executor, job: Callable[[], Any], given: Iterable[Any]) -> list[Any]:
    return sorted(executor.run(job, given))


def written(executor: Executor) -> str:
    """The expression that makes such an executor."""
    if isinstance(executor, Ray):
        return f"Ray({executor.address!r})"
    return "Here()" if isinstance(executor, Here) else f"{type(executor).__name__}(2)"


def gone(pids: Iterable[int], seconds: float = 15) -> bool:
    """Whether processes end within some seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


def pids(marks: Path) -> set[int]:
    return {int(mark.name.split("-")[0]) for mark in marks.iterdir()}


def test_each_job_is_done_once_and_equal_jobs_as_often_as_they_come(executor):
    given = [*range(20), 3, 3]
    assert results(executor, work(jobs.double), given) == sorted((n, 2 * n) for n in given)
    assert results(executor, work(jobs.double), []) == []


def test_behind_a_barrier_jobs_are_chosen_by_all_results_before_it(executor):
    done: list[int] = []

    def given() -> Iterator[Any]:
        yield BARRIER
        yield from range(6)
        yield BARRIER
        yield from sorted(done)
        yield BARRIER
        yield BARRIER
        yield sum(done)

    for _, result in Ranks(executor, Rank(1, 2), list).run(work(jobs.double), given()):
        done.append(result)
    assert sorted(done[:6]) == [0, 2, 4, 6, 8, 10]
    assert sorted(done[6:12]) == [0, 4, 8, 12, 16, 20]
    assert done[12:] == [2 * (30 + 60)]


@pytest.mark.parametrize(
    ("job", "error", "message"),
    [
        (work(jobs.fail), InputError, "^3 is not allowed$"),
        (jobs.refuse, InputError, "^nothing works here$"),
        (work(jobs.fail_oddly), (jobs.OddError, RuntimeError), "one two"),
    ],
)
def test_an_error_is_raised_as_itself(executor, job, error, message):
    with pytest.raises(error, match=message):
        results(executor, job, range(10))


def test_jobs_are_drawn_as_they_are_needed(executor):
    drawn = []
    given = (drawn.append(n) or n for n in range(1000))
    run = executor.run(work(jobs.double), given)
    for done in range(1, 30):
        next(run)
        assert len(drawn) <= done + 8
    run.close()


def test_a_process_keeps_what_it_loaded(executor, tmp_path):
    results_ = [result for _, result in executor.run(partial(jobs.load_once, tmp_path / "log"), range(40))]
    assert {loads for _, loads in results_} == {1}


def test_numbers_are_computed_by_one_thread_and_a_crash_names_its_place(processes, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert results(processes, work(jobs.threads), [0]) == [(0, "1")]
    assert "OMP_NUM_THREADS" not in os.environ
    with pytest.raises(ZeroDivisionError, match=r"jobs\.py"):
        results(processes, work(jobs.crash), range(10))


def test_what_cannot_be_sent_is_named(processes):
    with pytest.raises(InputError, match=r"the work cannot be sent to another process .*lambda"):
        results(processes, lambda: abs, [1])
    with pytest.raises(InputError, match=r"a job cannot be sent to another process .*lambda"):
        results(processes, work(jobs.double), [1, lambda: 1])
    with pytest.raises(InputError, match=r"the result of a job cannot be sent .*lambda"):
        results(processes, work(jobs.unpicklable), [1])


def test_a_process_that_differs_is_refused(executor):
    versions = partial(jobs.process, 0)
    if isinstance(executor, Here | Threads):
        assert results(executor, alike(work(jobs.double), versions), [1]) == [(1, 2)]
        return
    with pytest.raises(InputError, match=rf"the node .* has process \d+, not {os.getpid()}: "):
        results(executor, alike(work(jobs.double), versions), [1])


@pytest.mark.slow
@pytest.mark.parametrize("job", [jobs.kill_once, jobs.leave_a_child])
def test_the_job_of_a_process_that_dies_is_given_out_again(processes, tmp_path, job):
    assert results(processes, work(job, tmp_path), range(12)) == [(n, 2 * n) for n in range(12)]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_job_that_kills_every_process_is_named(processes):
    done = []
    with pytest.raises(
        ShiftdataError, match=rf"^7: {LOSSES} processes died while they did this, the last by"
    ):
        done += processes.run(work(jobs.kill_always), range(12))


def test_left_early_its_processes_end(processes, tmp_path):
    run = processes.run(work(jobs.sleep, tmp_path), range(100))
    assert next(run) == (0, 0)
    until = time.monotonic() + 20
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    started = time.monotonic()
    run.close()
    assert time.monotonic() - started < 10
    assert gone(pids(tmp_path))


def test_interrupted_it_stops_at_once_with_its_processes(executor, tmp_path):
    with jobs.start_interrupted(tmp_path, written(executor)) as process:
        while len(list(tmp_path.iterdir())) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
    assert gone(pids(tmp_path))


def test_killed_its_processes_end_too(processes, tmp_path):
    with jobs.start_interrupted(tmp_path, written(processes)) as process:
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.05)
        process.kill()
    assert gone(pids(tmp_path))


def test_ranks_do_their_own_share_and_then_what_others_left(executor, tmp_path):
    def missing(left: Iterable[int]) -> list[int]:
        return [n for n in left if n not in done]

    done: dict[int, int] = {}
    first = Ranks(executor, Rank(1, 3), missing).run(work(jobs.double), range(30))
    own = [next(first) for _ in range(10)]
    assert {n for n, _ in own} <= set(range(30))
    assert {n % 3 for n, _ in own[:4]} == {1}
    first.close()  # it is lost
    done |= dict(own)
    for number in (0, 2):
        done |= dict(Ranks(executor, Rank(number, 3), missing).run(work(jobs.double), range(30)))
    assert done == {n: 2 * n for n in range(30)}
    assert results(Ranks(executor, Rank(2, 3), missing), work(jobs.double), range(30)) == []


def test_a_rank_without_others_does_every_job(executor):
    ranks = Ranks(executor, Rank(2, 3), lambda jobs_: jobs_)
    assert results(ranks, work(jobs.double), range(20)) == [(n, 2 * n) for n in range(20)]


@pytest.mark.parametrize("rank", [(-1, 8), (8, 8), (0, 0)])
def test_a_rank_is_below_the_world(rank):
    with pytest.raises(InputError, match=r"there is no rank .* ranks count from 0"):
        Rank(*rank)


ARRAY = {f"SLURM_ARRAY_TASK_{name}": value for name, value in {"MIN": "1", "STEP": "2", "COUNT": "4"}.items()}


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"SLURM_ARRAY_TASK_ID": "7"} | ARRAY, (3, 4)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8"}, (5, 8)),
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"} | ARRAY, (1, 4)),
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"} | ARRAY, (3, 8)),
        # Of an array of 8, tasks 3 and 6 once more.
        (
            {"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_COUNT": "2"},
            (1, 2),
        ),
    ],
)
def test_the_rank_of_slurm(variables, rank):
    own, names = Rank.of_slurm(variables)
    assert own == Rank(*rank)
    assert all(part.split("=")[0] in variables for part in names.split(", "))


@pytest.mark.parametrize("variables", [{}, {"SLURM_PROCID": "1"}, {"SLURM_ARRAY_TASK_ID": "1"}])
def test_without_slurm_the_options_are_named(variables):
    with pytest.raises(InputError, match="give --rank and --world"):
        Rank.of_slurm(variables)
