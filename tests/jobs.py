"""Jobs for executors, in a module that their processes can import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from shiftdata.errors import InputError


class OddError(Exception):
    """Cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def work(job: Callable[..., Any], *arguments: Any) -> partial[Callable[[Any], Any]]:
    """Work that does `job(*arguments, n)` for each n."""
    return partial(partial, job, *arguments)


def double(n: int) -> int:
    return 2 * n


def fail(n: int) -> int:
    if n == 3:
        raise InputError("3 is not allowed")
    return n


def crash(n: int) -> float:
    return n / 0


def fail_oddly(n: int) -> int:
    raise OddError("one", "two")


def unpicklable(n: int) -> Any:
    return lambda: n


def refuse() -> Callable[[int], int]:
    raise InputError("nothing works here")


def load_once(log: Path) -> Callable[[int], tuple[int, int]]:
    """Each result says in which process it was made, and how often that one was loaded."""
    with log.open("a") as stream:
        stream.write(f"{os.getpid()}\n")
    return lambda n: (os.getpid(), log.read_text().split().count(str(os.getpid())))


def threads(n: int) -> str | None:
    return os.environ.get("OMP_NUM_THREADS")


def kill_once(marks: Path, n: int) -> int:
    """Every fifth job kills its process the first time."""
    mark = marks / str(n)
    if n % 5 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * n


def kill_always(n: int) -> int:
    if n == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def leave_a_child(marks: Path, n: int) -> int:
    """As `kill_once`, with a child that keeps the connection of its dead parent open."""
    if not (marks / str(n)).exists() and not os.fork():
        time.sleep(5)
        os._exit(0)
    return kill_once(marks, n)


def sleep(marks: Path, n: int) -> int:
    """The first job is quick, all others take a minute; each leaves the number of its process."""
    (marks / f"{os.getpid()}-{n}").touch()
    time.sleep(60 if n else 0)
    return n


def process(n: int) -> dict[str, str]:
    return {"process": str(os.getpid())}


def interrupted(marks: Path, executor: str) -> None:
    """Run `sleep` by the executor that an expression gives, in a process of its own."""
    import shiftdata.data.executors as e

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for jobs in the background
    try:
        for _ in eval(executor, vars(e)).run(work(sleep, marks), range(100)):
            pass
    except KeyboardInterrupt:
        sys.exit(130)


def start_interrupted(marks: Path, executor: str) -> subprocess.Popen[bytes]:
    code = f"from tests.jobs import *; interrupted(Path({str(marks)!r}), {executor!r})"
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
