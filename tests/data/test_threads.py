"""Threads that work ahead: order, bounds, errors, and an early end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from shiftdata.threads import AHEAD, ahead


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_results_come_in_order(workers):
    def slow_for_even(job: int) -> int:
        time.sleep(0.002 * (job % 2 == 0))
        return job * job

    assert list(ahead(slow_for_even, range(50), workers)) == [job * job for job in range(50)]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_never_far_ahead(workers):
    done: list[int] = []
    for taken, _ in enumerate(ahead(done.append, range(60), workers), start=1):
        time.sleep(0.001)
        assert len(done) <= taken + AHEAD * workers


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_comes_in_its_turn(workers):
    def fails_at_five(job: int) -> int:
        if job == 5:
            raise KeyError(job)
        return job

    results = ahead(fails_at_five, range(20), workers)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError):
        next(results)


def test_leaving_early_ends_threads_and_work():
    done: list[int] = []
    before = threading.active_count()
    with closing(ahead(done.append, range(10_000), 3)) as results:
        next(results)
        assert threading.active_count() == before + 3
    assert threading.active_count() == before
    assert len(done) <= 1 + AHEAD * 3


LEFT = """
import atexit, sys, threading
atexit.register(lambda: print(threading.active_count()))  # runs last
from shiftdata.threads import ahead
sys.results = ahead(lambda job: job, range(100), 2)
print(next(sys.results))
"""


def test_threads_of_a_loop_that_is_left_end_with_the_program():
    """Else one that runs in C++ aborts it, and the generator's own end fails once modules are gone."""
    ran = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (0, ["0", "1"], "")
