"""Logs by the standard library: every logger below `shiftdata`, silent unless somebody asks.

An application sets levels and handlers, as for any library. `SHIFTDATA_VERBOSITY` is debug, info, warning or
error: the level, and where the application has no handler, lines on standard error.
"""

from __future__ import annotations

import logging
import os

from shiftdata.errors import InputError

VARIABLE = "SHIFTDATA_VERBOSITY"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
ROOT = logging.getLogger("shiftdata")


class Printable(logging.Formatter):
    """Lines of which no terminal runs anything: names and addresses in them may be a stranger's."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name is logging's
        line = super().formatMessage(record)
        return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def verbosity() -> int | None:
    """Return the level that the environment asks for, None without one."""
    text = os.environ.get(VARIABLE, "").strip()
    if text and text.lower() not in LEVELS:
        raise InputError(f"{VARIABLE} is {text!r}: give {', '.join(LEVELS)}, or leave it out")
    return LEVELS.get(text.lower())


def logger(name: str) -> logging.Logger:
    """Return the logger of a module; with the first, the environment is followed."""
    if not ROOT.handlers:
        level = verbosity()
        handler = logging.NullHandler() if level is None else logging.StreamHandler()
        handler.setFormatter(Printable("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
        handler.addFilter(lambda record: not logging.getLogger().handlers)  # else it would be shown twice
        ROOT.addHandler(handler)
        ROOT.setLevel(level or logging.NOTSET)
    return logging.getLogger(name)
