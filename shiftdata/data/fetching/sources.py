"""Several places of the same dataset, in the order in which they are asked, and files from them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from shiftdata.data.dataset import OpenDataset, check_origin, open_store
from shiftdata.data.fetching.staging import is_right
from shiftdata.data.format.records import FileRecord
from shiftdata.data.places.signatures import Keys
from shiftdata.data.places.store import OnBytes, Store, in_a_line
from shiftdata.errors import ChangedError, IntegrityError, MissingExtraError, ShiftdataError, StorageError
from shiftdata.files import OUT_OF_SPACE
from shiftdata.logs import logger
from shiftdata.threads import in_threads

#: Failures in a row after which a place is asked last; if it was slow, not at all.
FAILURES = 3
#: As many failures of a place that is not asked again.
NEVER = 1 << 30
#: Seconds after which a failure is a slow one.
SLOW = 10.0
LOG = logger(__name__)

T = TypeVar("T")


class NoPlaceError(StorageError):
    """No place gave what was wanted; `reasons` says why, by place."""

    def __init__(self, what: str, reasons: Sequence[str]) -> None:
        super().__init__("\n".join([what, *(f"  {reason}" for reason in reasons)]))
        self.reasons = reasons


@dataclass
class Sources:
    """The places of one dataset, what each gave (`files`, `sizes`), and what went wrong (`problems`).

    `wanted` is the sha256 of its manifest; where it is not known, the first place that answers decides. A
    place with another manifest, from the start or since it was opened, gives nothing. With `keys`, a manifest
    that is not known by its hash must be signed by one of them, under its `name` if it was asked for by that;
    `signature` has it, where a place does.
    """

    stores: Sequence[Store]
    wanted: str | None = None
    offline: bool = False
    keys: Keys = ()
    name: str | None = None
    signature: bytes | None = None
    files: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[str]] = field(default_factory=dict)
    _opened: dict[str, OpenDataset] = field(default_factory=dict)
    _failures: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def manifest(self) -> bytes:
        """Return the manifest from the first place that has the wanted one."""
        for store in self.order():
            written = self._open(store)
            if written is not None:
                return written
        raise NoPlaceError("no place gave its manifest:", self.reasons())

    def order(self) -> list[Store]:
        """Return the places that may have it, those that keep failing last."""
        with self._lock:
            able = [store for store in self.stores if self._failures[store.address] < NEVER]
            return sorted(able, key=lambda store: self._failures[store.address] >= FAILURES)

    def first(self, what: str, act: Callable[[OpenDataset], T]) -> tuple[T, Store]:
        """Return what the first place gives that can, and that place; note what goes wrong before."""
        for store in self.order():
            if store.address not in self._opened and self._open(store) is None:
                continue
            dataset, began = self._opened[store.address], time.monotonic()
            try:
                result = act(dataset)
            except Exception as error:  # each backend has its own kinds
                if isinstance(error, MissingExtraError) or getattr(error, "errno", None) in OUT_OF_SPACE:
                    raise
                self._failed(store, dataset, f"{what}: {in_a_line(error)}")
                if time.monotonic() - began > SLOW and self._failures[store.address] >= FAILURES:
                    self._note(store, f"is not asked again: it was slow and failed {FAILURES} times", NEVER)
                continue
            with self._lock:
                if self._failures[store.address] < NEVER:
                    self._failures[store.address] = 0
            return result, store
        raise NoPlaceError(f"no place gave {what}:", self.reasons())

    def count(self, store: Store, size: int, files: int = 1) -> None:
        """Count what a place gave."""
        with self._lock:
            self.files[store.address] += files
            self.sizes[store.address] += size

    def reasons(self) -> list[str]:
        """Return a line for each place: what was wrong last, and how often."""
        lines = []
        for store in self.stores:
            problems = self.problems.get(store.address, ["not needed"])
            more = f" ({len(problems)} problems in all)" if len(problems) > 1 else ""
            lines.append(f"{store.address}: {problems[-1]}{more}")
        return lines

    def _open(self, store: Store) -> bytes | None:
        if self.offline and store.is_far:
            self._note(store, "not asked (offline)", NEVER)
            return None
        try:
            dataset, written = open_store(store)
            signature = self._signature(dataset, written) if self.keys else None
        except MissingExtraError as error:  # the others may do
            self._note(store, in_a_line(error), NEVER)
            return None
        except Exception as error:  # each backend has its own kinds
            self._note(store, f"manifest.json: {in_a_line(error)}", FAILURES)
            return None
        with self._lock:
            self.wanted = self.wanted or dataset.sha256
            if dataset.sha256 == self.wanted:
                self._opened[store.address] = dataset
                self.signature = self.signature or signature
                return written
        digests = f"its manifest is {dataset.sha256[:12]}, not {self.wanted[:12]}"
        self._note(store, f"has another version: {digests}", NEVER)
        return None

    def _signature(self, dataset: OpenDataset, written: bytes) -> bytes | None:
        if self.wanted is None:
            return check_origin(dataset, written, self.keys, self.name)
        try:  # known by its hash, but not to those who later have the folder alone
            return check_origin(dataset, written, self.keys)
        except ShiftdataError:
            return None

    def _failed(self, store: Store, dataset: OpenDataset, why: str) -> None:
        """Note a failure; a place that has another version by now is not asked again."""
        weight = 1
        try:
            dataset.check_unchanged()
        except ChangedError as changed:
            why, weight = in_a_line(changed), NEVER
        except Exception:  # it is away: the failure says so already
            pass
        self._note(store, why, weight)

    def _note(self, store: Store, why: str, weight: int = 1) -> None:
        with self._lock:
            self._failures[store.address] += weight
            problems = self.problems.setdefault(store.address, [])
            if why not in problems:  # several threads may report the same
                problems.append(why)
                LOG.info("%s: %s", store.address, why)


def fetch_files(
    sources: Sources, work: Path, files: Mapping[str, FileRecord], *, jobs: int, on_bytes: OnBytes
) -> dict[str, int]:
    """Fetch files into a folder, some at a time; return those that no place has, with their sizes."""

    def fetch(path: str) -> bool:
        try:
            _fetch_file(sources, work, path, files[path], on_bytes)
        except NoPlaceError:
            return False
        return True

    done = in_threads(fetch, list(files), jobs)
    return {path: files[path].bytes for path, came in zip(files, done, strict=True) if not came}


def bytes_here(work: Path, path: str, record: FileRecord) -> int:
    """Count the bytes of a file that came already: all, those of an interrupted download, or none."""
    file, part = work / path, _part(work / path)
    if is_right(file, record):
        return record.bytes
    return min(part.stat().st_size, record.bytes) if part.is_file() else 0


def _fetch_file(sources: Sources, work: Path, path: str, record: FileRecord, on_bytes: OnBytes) -> None:
    """Fetch one file; one that came before stays, and one that was begun goes on."""
    file = work / path
    if is_right(file, record):
        LOG.debug("%s came before", path)
        return
    part = _part(file)
    part.parent.mkdir(parents=True, exist_ok=True)

    def act(dataset: OpenDataset) -> None:
        begun = part.is_file() and part.stat().st_size > 0
        dataset.store.fetch_listed(path, part, record, on_bytes)
        if begun and not is_right(part, record):  # its beginning may be of another place: from the start
            _drop(part, on_bytes)
            dataset.store.fetch_listed(path, part, record, on_bytes)
        if not is_right(part, record):
            size = part.stat().st_size
            _drop(part, on_bytes)
            fault = f"{size:,} bytes" if size != record.bytes else "a sha256"
            raise IntegrityError(f"has {fault} that the manifest does not know")

    _, store = sources.first(path, act)
    part.replace(file)
    sources.count(store, record.bytes)
    LOG.debug("%s came from %s", path, store.address)


def _part(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def _drop(part: Path, on_bytes: OnBytes) -> None:
    on_bytes(-part.stat().st_size)
    part.unlink()
