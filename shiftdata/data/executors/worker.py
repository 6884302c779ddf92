"""What happens in a process that does jobs for another one, and what the two send each other."""

from __future__ import annotations

import pickle
import platform
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar

from shiftdata.errors import InputError, ShiftdataError

Loaded = TypeVar("Loaded")


def packed(what: str, value: object) -> bytes:
    """A value as it is sent to another process."""
    try:
        return pickle.dumps(value)
    except Exception as error:  # whatever the `__reduce__` of anybody's class raises
        raise InputError(
            f"{what} cannot be sent to another process ({error}): {value!r:.200}; use functions and classes "
            "at the top of a module, and values that can be pickled"
        ) from error


def attempt(work: bytes, job: bytes) -> bytes:
    """Do a job in this process, which keeps what the work has loaded; give its packed outcome."""
    try:
        return packed("the result of a job", (_loaded(work)(pickle.loads(job)), None))
    except BaseException as error:  # it is raised where the result is awaited
        lines = traceback.format_exception(error)
        if not isinstance(error, ShiftdataError):
            error.add_note(f"In a worker:\n{''.join(lines)}")
        try:
            sent = pickle.dumps((None, error))
            pickle.loads(sent)
        except Exception:  # such as an `__init__` that takes other arguments than it hands on
            return pickle.dumps((None, RuntimeError(lines[-1].strip())))
        return sent


def result(outcome: bytes) -> Any:
    """The result of a job, or its error."""
    value, error = pickle.loads(outcome)
    if error is not None:
        raise error
    return value


@lru_cache(maxsize=1)
def _loaded(work: bytes) -> Callable[[Any], Any]:
    do: Callable[[Any], Any] = pickle.loads(work)()
    return do


def alike(work: Callable[[], Loaded], versions: Callable[[], Mapping[str, str]]) -> Callable[[], Loaded]:
    """Work that refuses to start in a process where `versions` gives something else than in this one."""
    return partial(_start_alike, work, versions, dict(versions()))


def _start_alike(
    work: Callable[[], Loaded], versions: Callable[[], Mapping[str, str]], expected: Mapping[str, str]
) -> Loaded:
    check_alike(f"the node {platform.node()}", versions(), expected)
    return work()


def check_alike(who: str, there: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Refuse a process that has something else than is expected."""
    names = sorted({name for name, _ in expected.items() ^ there.items()})
    if names:
        parts = [f"{name} {there.get(name)}, not {expected.get(name)}" for name in names]
        raise InputError(f"{who} has {'; '.join(parts)}: install the same on every node")
