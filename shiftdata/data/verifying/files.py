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
ADVICE = {
    "link": "put the file itself there",
    "unreachable": "check the network and your access, then verify again",
}


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
    totals = Counter((problem.path, problem.kind) for problem in problems)
    printed: Counter[tuple[str, str]] = Counter()
    for problem in problems:
        sort = (problem.path, problem.kind)
        printed[sort] += 1
        # One more line is no longer than the line that would summarise it.
        if printed[sort] <= most or totals[sort] == most + 1:
            yield str(problem)
        elif printed[sort] == totals[sort]:
            more = f" ({hint})" if hint else ""
            yield f"{problem.path}: ... and {totals[sort] - most:,} more like it{more}"


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
    """A file of the manifest: where it lies on this machine if it is intact, else its fault."""

    path: str
    rows: int | None = None
    file: Path | None = None
    fault: str = ""
    kind: str = ""

    def problems(self, contents: str = "") -> list[Problem]:
        """Return the fault as a problem; `contents` names what is lost with the file."""
        lost = f"; {contents}" if contents and self.kind != "link" else ""
        text = f"{self.fault}{lost}: {ADVICE.get(self.kind, 'fetch it again, or build the dataset again')}"
        return [Problem(self.path, text, self.kind)] if self.fault else []


@dataclass(frozen=True)
class Files:
    """The files of an opened dataset; those that are not in a folder are fetched into `scratch`."""

    dataset: OpenDataset
    scratch: Path
    progress: Progress

    def each(self, paths: Sequence[str], *, keep: bool = False) -> Iterator[LocalFile]:
        """Yield files in order, fetched and hashed a few ahead; fetched ones are deleted unless kept."""
        cores = available_cores()
        workers = cores if self.dataset.folder is not None else max(cores, REMOTE_FILES)
        with closing(ahead(self._compared, paths, workers, queued=1)) as arriving:
            for local in arriving:
                yield local
                if not keep and self.dataset.folder is None and local.file is not None:
                    local.file.unlink(missing_ok=True)

    def leads_out(self, path: str) -> bool:
        """Return True if a path leads out of the dataset, by a link or by `..`."""
        folder = self.dataset.folder
        if folder is None:
            return ".." in path.split("/") or path.startswith("/") or "\\" in path
        try:
            return not (folder / path).resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError):  # links in a circle
            return True

    def _compared(self, path: str) -> LocalFile:
        """Compare a file with the manifest; one that is not listed there is skipped."""
        record = self.dataset.manifest.files.get(path)
        if record is None:
            return LocalFile(path)
        if self.leads_out(path):
            return LocalFile(path, fault="points out of the dataset's folder", kind="link")
        fault, kind, folder = "", "", self.dataset.folder
        file = self.scratch / path.replace("/", "~") if folder is None else folder / path
        if folder is None:
            fault, kind = self._fetch(path, record, file)
        if not fault:
            fault, kind = self._fault(file, record)
        if kind in ("size", "hash") and path == CROISSANT:  # which may have the addresses of its place
            with open_regular(file) as stream:
                fault = "" if is_listed(path, stream.read(MOST_SMALL), record) else fault
        self.progress.report("on_file", path)
        self.progress.checked["files by their hash"] += not fault
        if fault and folder is None:
            file.unlink(missing_ok=True)
        return LocalFile(path, record.rows, None if fault else file, fault, kind if fault else "")

    def _fetch(self, path: str, record: FileRecord, file: Path) -> tuple[str, str]:
        """Fetch a file; return its fault and the kind of that."""
        store, progress = self.dataset.store, self.progress
        try:
            size = store.info(path).size
            if size not in (None, record.bytes) and path != CROISSANT:
                return f"has {size} bytes, the manifest says {record.bytes}", "size"
            store.fetch_listed(path, file, record, partial(progress.report, "on_bytes"))
        except MissingFileError:
            return "is missing", "missing"
        except Exception as error:  # each backend has its own kinds
            if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
                raise StorageError(
                    f"no space left in {self.scratch.parent} for {path} ({record.bytes:,} bytes): free some, "
                    "or set TMPDIR to a larger disk; a few files are fetched at a time"
                ) from error
            cause = error.__cause__ or error
            return f"could not be fetched ({type(cause).__name__}: {first_line(cause)})", "unreachable"
        return "", ""

    def _fault(self, file: Path, record: FileRecord) -> tuple[str, str]:
        try:
            size = file.stat().st_size
            if size != record.bytes:
                return f"has {size} bytes, the manifest says {record.bytes}", "size"
            digest = hashlib.sha256()
            with open_regular(file) as stream:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
                    if self.dataset.folder is not None:  # else they were counted when they came
                        self.progress.report("on_bytes", len(chunk))
        except FileNotFoundError:
            return "is missing", "missing"
        except OSError as error:
            return f"cannot be read ({error.strerror or error}; check its rights and the disk)", "unreadable"
        if digest.hexdigest() != record.sha256:
            return f"has sha256 {digest.hexdigest()}, the manifest says {record.sha256}", "hash"
        return "", ""


def first_line(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{error}".partition("\n")[0] or type(error).__name__
