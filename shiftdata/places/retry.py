"""Try again what a remote place may answer the next time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from shiftdata.errors import ShiftdataError

#: Seconds to wait before each new try.
PAUSES = (0.5, 2.0)

T = TypeVar("T")


def persistently(act: Callable[[], T]) -> T:
    """Do something with a remote place, with a few more tries where the error may pass."""
    for pause in PAUSES:
        try:
            return act()
        except Exception as error:  # each backend has its own kinds
            if _is_final(error):
                raise
            time.sleep(pause)
    return act()


def _is_final(error: Exception) -> bool:
    """Whether another try would end alike: a file that is not there, or an answer that refuses."""
    if isinstance(error, FileNotFoundError | PermissionError | ShiftdataError | NotImplementedError):
        return True
    status = getattr(error, "status", None)
    return isinstance(status, int) and 400 <= status < 500 and status not in (408, 429)
