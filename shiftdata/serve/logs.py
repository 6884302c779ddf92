"""The server's log: one line for each request, within bounds that no client can break."""

from __future__ import annotations

import logging
import sys
import time

from shiftdata.logs import ROOT, verbosity

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


def start_log(*, quiet: bool) -> None:
    """Print a line for each request, unless quiet, and what goes wrong, or what SHIFTDATA_VERBOSITY says."""
    level = max(verbosity() or logging.INFO, logging.WARNING if quiet else logging.DEBUG)
    for handler in ROOT.handlers:
        handler.addFilter(Bounded(*REQUESTS))
    for name, limits, stream in (
        ("shiftdata.access", REQUESTS, sys.stdout),
        ("shiftdata.serve", OTHERS, sys.stderr),
        ("asyncio", OTHERS, sys.stderr),
    ):
        handler = logging.StreamHandler(stream)
        handler.addFilter(Bounded(*limits))
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(max(level, logging.WARNING) if name == "asyncio" else level)
