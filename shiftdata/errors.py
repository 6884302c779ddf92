"""Everything shiftdata and its builders raise on purpose.

    ShiftdataError
    ├── InputError        the caller gave something that cannot be used (also a ValueError)
    │   └── NotFoundError     the thing that was named does not exist (also a LookupError)
    ├── MissingExtraError an optional dependency is not installed (also an ImportError)
    ├── IntegrityError    bytes, hashes or counts are not what the manifest says
    │   └── LimitError        a file has, or unpacks to, more than is read (also a ValueError)
    ├── ChangedError      a dataset is not the one that was opened any more
    └── StorageError      the disk or the place refused to read or write
        └── LockedError       another process has it

A message says what was given, what is allowed, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: The most names that a message lists.
MOST_NAMES = 20


class ShiftdataError(Exception):
    """Base of every error raised on purpose; catch it to catch them all."""


class InputError(ShiftdataError, ValueError):
    """The caller gave something that cannot be used."""


class NotFoundError(InputError, LookupError):
    """The dataset, recipe, config or name that was asked for does not exist."""


class MissingExtraError(ShiftdataError, ImportError):
    """An optional dependency is needed for this call and is not installed."""


class IntegrityError(ShiftdataError):
    """Bytes, hashes or counts differ from what the manifest promises."""


class LimitError(IntegrityError, ValueError):
    """A file has, or would unpack to, more than is read of what anybody may have written."""

    def __init__(self, message: str, limit: str = "", found: int = 0) -> None:
        super().__init__(message)
        self.limit, self.found = limit, found


class ChangedError(ShiftdataError):
    """A dataset is not the one that was opened any more: another was put in its place."""


class StorageError(ShiftdataError, OSError):
    """A disk or a remote place refused to read or to write."""


class LockedError(StorageError):
    """Another process has what this one wants alone."""


def not_found(kind: str, name: str, known: Iterable[str], hint: str = "") -> NotFoundError:
    """Build the error for an unknown name: what was given, the nearest names, all names or how many.

    >>> print(not_found("recipe", "sma_glyphz", ["sma_glyphs", "digits_ink"]))
    unknown recipe 'sma_glyphz'; did you mean 'sma_glyphs'? Known: digits_ink, sma_glyphs.
    """
    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    guess = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else "."
    if len(names) <= MOST_NAMES:
        listed = f" Known: {', '.join(names)}." if names else " None is known."
    else:
        shown = "" if nearest else f": {', '.join(names[:MOST_NAMES])}, ..."
        listed = f" {len(names):,} are known{shown}."
    return NotFoundError(f"unknown {kind} {name!r}{guess}{listed}{' ' + hint if hint else ''}")
