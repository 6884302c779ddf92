"""The server's log: one line for each request, within bounds that no client can break."""

from __future__ import annotations

import logging
import time
from typing import Any

#: Lines a second, and lines at once, for requests and for everything else (some are tracebacks).
REQUESTS = (50.0, 500.0)
OTHERS = (1.0, 100.0)


class Bounded(logging.Filter):
    """Pass on a number of records a second, and a number at once; say how many were left out."""

    def __init__(self, per_second: float, at_once: float) -> None:
        super().__init__()
        self._per_second, self._most = per_second, at_once
        self._room, self._at, self._left_out = at_once, time.monotonic(), 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        self._room = min(self._most, self._room + (now - self._at) * self._per_second)
        self._at = now
        if self._room < 1:
            self._left_out += 1
            return False
        self._room -= 1
        if self._left_out:
            record.msg = f"({self._left_out:,} lines were left out) {record.msg}"
            self._left_out = 0
        return True


def log_config(level: str) -> dict[str, Any]:
    """The settings of `logging` for a server."""
    filters = {"requests": REQUESTS, "others": OTHERS}
    stream = {"class": "logging.StreamHandler", "formatter": "plain"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(levelname)s: %(message)s"}},
        "filters": {
            name: {"()": Bounded, "per_second": rate, "at_once": most}
            for name, (rate, most) in filters.items()
        },
        "handlers": {
            "requests": stream | {"stream": "ext://sys.stdout", "filters": ["requests"]},
            "others": stream | {"stream": "ext://sys.stderr", "filters": ["others"]},
        },
        "loggers": {
            "uvicorn.access": {"handlers": ["requests"], "level": level, "propagate": False},
            "uvicorn.error": {"handlers": ["others"], "level": level, "propagate": False},
            "asyncio": {"handlers": ["others"], "level": "WARNING", "propagate": False},
        },
    }
