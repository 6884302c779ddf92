"""The problems that a verification reports, and each file on this machine, compared with the manifest."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.addresses import is_listed
from shiftdata.data.format.names import shown
from shiftdata.data.format.paths import CROISSANT
from shiftdata.data.format.records import FileRecord
from shiftdata.data.places.store import MOST_SMALL, MissingFileError
from shiftdata.errors import ShiftdataError, StorageError
from shiftdata.files import OUT_OF_SPACE, open_regular
from shiftdata.threads import ahead, available_cores

#: Files of a remote dataset that are fetched at a time: they wait for the network, not for cores.
REMOTE_FILES = 4
CHUNK = 1 << 20
ADVICE = "fetch it again, or build the dataset again"


@dataclass(frozen=True)
class Problem:
    """A fault at a path of the dataset, or in its row `key`.

    Problems of one `kind` in one file are alike, so that a list of them can be cut short.
    """

    path: str
    what: str
    kind: str = ""
    key: str | None = None

    def __str__(self) -> str:
        row = "" if self.key is None else f"row {self.key!r} "
        return f"{shown(self.path)}: {row}{self.what}"


def shortened(problems: Sequence[Problem], most: int = 10, hint: str = "") -> Iterator[str]:
    r"""Yield a line for each problem; of many of one kind in one file, only the first ones.

    >>> problems = [Problem(path="a", what=f"is {n}", kind="x") for n in range(5)]
    >>> print(*shortened(problems, most=2, hint="--all shows them"), sep="\n")
    a: is 0
    a: is 1
    a: ... and 3 more like it (--all shows them)
    """
    alike: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        alike.setdefault((problem.path, problem.kind), []).append(problem)
    for (path, _), group in alike.items():
        yield from map(str, group[:most])
        if len(group) > most:
            more = f" ({hint})" if hint else ""
            yield f"{path}: ... and {len(group) - most:,} more like it{more}"


class Listeners(TypedDict, total=False):
    """The functions that are called while a verification goes on, one call at a time."""

    on_file: Callable[[str], object]
    on_bytes: Callable[[int], object]
    on_rows: Callable[[int], object]
    on_note: Callable[[str], object]


@dataclass
class Progress:
    """The listeners of a verification, and the counts of what was checked."""

    listeners: Listeners
    stopped: bool = False
    checked: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, name: Literal["on_file", "on_bytes", "on_rows", "on_note"], value: Any) -> None:
        """Call a listener; once the verification has stopped, end the calling thread instead."""
        with self._lock:
            if self.stopped:
                raise ShiftdataError("the verification was stopped")
            if listener := self.listeners.get(name):
                listener(value)


@dataclass(frozen=True)
class LocalFile:
    """A file of the manifest: where it lies on this machine if it is intact, else its problem."""

    path: str
    rows: int | None = None
    file: Path | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Files:
    """The files of an opened dataset; those that are not in a folder are fetched into `scratch`."""

    dataset: OpenDataset
    scratch: Path
    progress: Progress

    def each(self, paths: Sequence[str], *, keep: bool = False) -> Iterator[LocalFile]:
        """Yield files in order, fetched and hashed a few ahead; fetched ones are deleted unless kept."""
        cores, remote = available_cores(), self.dataset.folder is None
        workers = max(cores, REMOTE_FILES) if remote else cores
        with closing(ahead(self._compared, paths, workers, queued=1)) as arriving:
            for local in arriving:
                yield local
                if remote and not (keep and local.file):
                    self._place(local.path).unlink(missing_ok=True)

    def leads_out(self, path: str) -> bool:
        """Return True if a path leads out of the dataset's folder by a link."""
        folder = self.dataset.folder
        if folder is None:
            return False
        try:
            return not (folder / path).resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError):  # links in a circle
            return True

    def _place(self, path: str) -> Path:
        folder = self.dataset.folder
        return self.scratch / path.replace("/", "~") if folder is None else folder / path

    def _compared(self, path: str) -> LocalFile:
        """Compare a file with the manifest; one that is not listed there is skipped."""
        record = self.dataset.manifest.files.get(path)
        if record is None:
            return LocalFile(path)
        fault, file, kind = "", self._place(path), "file"
        if self.leads_out(path):
            fault, kind = "points out of the dataset's folder: put the file itself there", "link"
        else:
            fault = self._fetch(path, record, file) if self.dataset.folder is None else ""
            fault = fault or self._fault(file, record)
            if fault and path == CROISSANT and file.is_file():  # it may have the addresses of its place
                with open_regular(file) as stream:
                    fault = "" if is_listed(path, stream.read(MOST_SMALL), record) else fault
        self.progress.report("on_file", path)
        if fault:
            return LocalFile(path, problems=(Problem(path, fault, kind),))
        self.progress.checked["files by their hash"] += 1
        return LocalFile(path, record.rows, file)

    def _fetch(self, path: str, record: FileRecord, file: Path) -> str:
        """Fetch a file, or return the reason that it could not be fetched."""
        store, progress = self.dataset.store, self.progress
        try:
            size = store.info(path).size
            if size not in (None, record.bytes) and path != CROISSANT:
                return f"has {size} bytes, the manifest says {record.bytes}: {ADVICE}"
            store.fetch_listed(path, file, record, partial(progress.report, "on_bytes"))
        except MissingFileError:
            return f"is missing: {ADVICE}"
        except Exception as error:  # each backend has its own kinds
            if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
                raise StorageError(
                    f"no space left in {self.scratch.parent} for {path} ({record.bytes:,} bytes): free some, "
                    "or set TMPDIR to a larger disk; a few files are fetched at a time"
                ) from error
            cause = error.__cause__ or error
            return (
                f"could not be fetched ({type(cause).__name__}: {first_line(cause)}): check the network and "
                "your access, then verify again"
            )
        return ""

    def _fault(self, file: Path, record: FileRecord) -> str:
        """Return the reason that a file on this machine is not the one of a record."""
        try:
            size = file.stat().st_size
            if size != record.bytes:
                return f"has {size} bytes, the manifest says {record.bytes}: {ADVICE}"
            digest = hashlib.sha256()
            with open_regular(file) as stream:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
                    if self.dataset.folder is not None:  # else they were counted when they came
                        self.progress.report("on_bytes", len(chunk))
        except FileNotFoundError:
            return f"is missing: {ADVICE}"
        except OSError as error:
            return f"cannot be read ({error.strerror or error}): check its rights and the disk"
        if digest.hexdigest() != record.sha256:
            return f"has sha256 {digest.hexdigest()}, the manifest says {record.sha256}: {ADVICE}"
        return ""


def first_line(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{error}".partition("\n")[0] or type(error).__name__
