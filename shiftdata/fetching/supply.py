"""Several places for the same dataset, in the order in which they are asked, and what became of each."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from shiftdata.errors import MissingExtraError, ShiftdataError, StorageError
from shiftdata.files import OUT_OF_SPACE
from shiftdata.format.manifest import FILE_NAME
from shiftdata.places.store import Store

#: A place that fails so often in a row is asked after the others.
PATIENCE = 3

T = TypeVar("T")


class NoPlaceError(StorageError):
    """No place gave what was wanted; `reasons` says why, by place."""

    def __init__(self, what: str, reasons: Sequence[str]) -> None:
        super().__init__("\n".join([what, *(f"  {reason}" for reason in reasons)]))
        self.reasons = reasons


@dataclass
class Supply:
    """The places of one dataset.

    `wanted` is the sha256 of its manifest. Where it is not known, the first place that answers decides. A
    place with another manifest holds another version of the dataset, and gives nothing. `files` and `sizes`
    count what each place gave, and `problems` say what went wrong there.
    """

    sources: Sequence[Store]
    wanted: str | None = None
    offline: bool = False
    files: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[str]] = field(default_factory=dict)
    _manifests: dict[str, str] = field(default_factory=dict)
    _failures: Counter[str] = field(default_factory=Counter)
    _out: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def manifest(self) -> bytes:
        """The manifest from the first place that has the one that is wanted."""
        for source in self.order():
            written = self._ask(source)
            if written is not None:
                return written
        raise NoPlaceError("no place gave its manifest:", self.reasons())

    def order(self) -> list[Store]:
        """The places that may have it, those that keep failing last."""
        with self._lock:
            able = [source for source in self.sources if source.address not in self._out]
            return sorted(able, key=lambda source: self._failures[source.address] >= PATIENCE)

    def first(self, what: str, act: Callable[[Store], T]) -> tuple[T, Store]:
        """What the first place gives that can, and that place. What goes wrong before is noted."""
        for source in self.order():
            if self._manifests.get(source.address) is None and self._ask(source) is None:
                continue
            try:
                found = act(source)
            except Exception as error:  # each backend has its own kinds
                if isinstance(error, MissingExtraError) or getattr(error, "errno", None) in OUT_OF_SPACE:
                    raise
                self._failed(source, f"{what}: {_said(error)}")
                continue
            with self._lock:
                self._failures[source.address] = 0
            return found, source
        raise NoPlaceError(f"no place gave {what}:", self.reasons())

    def came(self, source: Store, size: int) -> None:
        """Count a file that a place gave."""
        with self._lock:
            self.files[source.address] += 1
            self.sizes[source.address] += size

    def reasons(self) -> list[str]:
        """One line for each place that failed: what was wrong last, and how often."""
        lines = []
        for source in self.sources:
            told = self.problems.get(source.address, ["not needed"])
            more = f" ({len(told)} problems in all)" if len(told) > 1 else ""
            lines.append(f"{source.address}: {told[-1]}{more}")
        return lines

    def _ask(self, source: Store) -> bytes | None:
        """The manifest of a place, if it has the right one."""
        if self.offline and source.is_far:
            self._rule_out(source, "not asked (offline)")
            return None
        try:
            written = source.read(FILE_NAME)
        except MissingExtraError as error:  # the others may do
            self._rule_out(source, _said(error))
            return None
        except Exception as error:  # each backend has its own kinds
            self._failed(source, f"manifest.json: {_said(error)}", PATIENCE)
            return None
        digest = hashlib.sha256(written).hexdigest()
        with self._lock:
            self.wanted = self.wanted or digest
            fits = digest == self.wanted
            if fits:
                self._manifests[source.address] = digest
        if not fits:
            self._rule_out(
                source, f"has another version: its manifest is {digest[:12]}, not {self.wanted[:12]}"
            )
            return None
        return written

    def _failed(self, source: Store, why: str, weight: int = 1) -> None:
        with self._lock:
            self._failures[source.address] += weight
            told = self.problems.setdefault(source.address, [])
            if why not in told:  # several threads may find the same
                told.append(why)

    def _rule_out(self, source: Store, why: str) -> None:
        with self._lock:
            if source.address not in self._out:
                self._out.add(source.address)
                self.problems.setdefault(source.address, []).append(why)


def _said(error: Exception) -> str:
    """An error in one line."""
    line = str(error).strip().partition("\n")[0]
    if isinstance(error, FileNotFoundError):
        return "is not there, or not to be reached"
    return line if isinstance(error, ShiftdataError) else f"{type(error).__name__}: {line}".rstrip(": ")
