"""A store: where the files of a dataset lie. One interface for folders, Hubs, http(s), s3 and memory.

`Folder` is in this module, `remote` has the stores behind fsspec, `http` those at http(s) and on Hubs;
`search` makes the store of an address.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import socket
import ssl
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

from shiftdata.data.format.addresses import relative
from shiftdata.data.format.manifest import MOST_BYTES
from shiftdata.data.format.paths import CROISSANT
from shiftdata.data.format.records import FileRecord
from shiftdata.errors import IntegrityError, ShiftdataError, StorageError
from shiftdata.files import OUT_OF_SPACE, absolute, descriptor_of, open_new, open_regular, read_at
from shiftdata.logs import logger

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*(::|://)")
SHA256 = re.compile(r"[0-9a-f]{64}")
#: Bytes that are copied, fetched or hashed at a time: a step of a progress bar.
CHUNK = 8 << 20
#: The most files of a folder that are open at once: some systems let a process have 256.
MOST_OPEN = 100
#: The most bytes of a manifest, and of whatever else is read whole and is in no manifest.
MOST_SMALL = MOST_BYTES

#: Folders of tools inside the folder of a dataset.
TOOLS = (".git/", ".cache/huggingface/")
#: Seconds to wait before each new try.
PAUSES = (0.5, 2.0)
#: Errors of a server that cannot be reached: another try gives the same.
UNREACHABLE = (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL)
LOG = logger(__name__)

T = TypeVar("T")
#: Called with how many more bytes came; a negative number takes back what has to come again.
OnBytes: TypeAlias = Callable[[int], object]


class ConnectTimeout(TimeoutError):
    """No connection within the time."""


class MissingFileError(StorageError, FileNotFoundError):
    """A store has no such file."""


@dataclass(frozen=True, kw_only=True)
class FileInfo:
    """The facts that a store has of a file without reading it.

    `version` changes when the file does (an ETag, else a time). `git` is the id that git gives its content.
    None: the store does not say.
    """

    size: int | None
    sha256: str | None = None
    version: str | None = None
    git: str | None = None


class Store(ABC):
    """The place of a dataset's files.

    A store is safe to use from several threads, can be pickled, and works after a fork. What is not there
    raises `MissingFileError`; whatever else goes wrong, after a few tries, `StorageError`.
    """

    #: An absolute path or a URL.
    address: str
    #: The folder on this machine, if it is one.
    folder: Path | None = None
    #: The commit that is read, where the store has commits: its files never change.
    revision: str | None = None
    #: Whether the network is needed.
    is_far: bool = False

    @property
    def at_once(self) -> int | None:
        """Return how many ranges `ranges` reads in the time of one; None as long as that is not known."""
        return 1

    @abstractmethod
    def listing(self) -> dict[str, FileInfo] | None:
        """List every file but those of tools; None where the store cannot."""

    @abstractmethod
    def info(self, path: str) -> FileInfo:
        """Ask for the facts of a file."""

    def read(self, path: str, most: int = MOST_SMALL) -> bytes:
        """Read a small file whole. One with more than `most` bytes is an `IntegrityError`."""
        with self.open(path) as file:
            data = self.persistently(path, lambda: file.read(most + 1))
        if len(data) > most:
            raise IntegrityError(f"{self.address}/{path} has more than the {most:,} bytes that are allowed")
        return data

    def has(self, path: str) -> bool:
        """Return True if there is such a file."""
        try:
            self.info(path)
        except MissingFileError:
            return False
        return True

    def range(self, path: str, start: int, end: int) -> bytes:
        """Read the bytes from `start` to before `end`, all of them."""
        with self.open(path) as file:
            file.seek(start)
            data = file.read(end - start)
        if len(data) != end - start:
            raise self.failed(path, OSError(f"it ends before byte {end}"))
        return data

    def ranges(self, path: str, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Read some ranges of a file, by the start and length of each."""
        return [self.range(path, start, start + length) for start, length in ranges]

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """Open a file that can seek and reads no more than it is asked for."""

    def download(self, path: str, file: Path, record: FileRecord, on_bytes: OnBytes) -> None:
        """Write a file of at most the bytes of its `record` to this machine; go on where a try left off."""
        append_ranges(self, path, file, record.bytes, on_bytes)

    def fetch_listed(self, path: str, file: Path, record: FileRecord, on_bytes: OnBytes) -> None:
        """Write a file that a manifest lists to this machine, in the form that the manifest lists."""
        if path != CROISSANT:
            self.download(path, file, record, on_bytes)
            return
        data = relative(self.read(path))
        copy(io.BytesIO(data), file, len(data), on_bytes)

    @abstractmethod
    def close(self) -> None:
        """Close files and connections; they are opened again when they are needed."""

    def sha256(self, path: str) -> str:
        """Hash all bytes of a file, read now."""
        digest = hashlib.sha256()
        with self.open(path) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def persistently(self, path: str, act: Callable[[], T]) -> T:
        """Do something with a file, again where the error may pass, and say what failed."""
        try:
            return persistently(act)
        except ShiftdataError:
            raise
        except Exception as error:  # each backend has its own
            if getattr(error, "errno", None) in OUT_OF_SPACE:
                raise
            raise self.failed(path, error) from error

    def failed(self, path: str, error: Exception) -> StorageError:
        """Make the error for a file that could not be read."""
        if isinstance(error, FileNotFoundError):
            return MissingFileError(f"{self.address}/{path} does not exist")
        why = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
        return StorageError(f"{self.address}/{path} cannot be read ({why}): {advice(error)}")

    def __str__(self) -> str:
        return self.address


def complete(data: bytes, length: int) -> bytes:
    """Return the bytes of a range; fewer than were asked for are an error that may pass."""
    if len(data) != length:
        raise OSError(f"{len(data)} bytes came for {length}")
    return data


def persistently(act: Callable[[], T]) -> T:
    """Do something with a place, and try again a few times where the error may pass."""
    for pause in PAUSES:
        try:
            return act()
        except Exception as error:  # each backend has its own
            if _is_final(error):
                raise
            LOG.info("trying again in %g s: %s", pause, in_a_line(error))
            time.sleep(pause)
    return act()


def is_unreachable(error: BaseException | None) -> bool:
    """Return True if no connection came about: an unknown name, or nothing that answers."""
    while error is not None:
        if isinstance(error, socket.gaierror | ssl.SSLCertVerificationError | ConnectTimeout):
            return True
        if isinstance(error, OSError) and error.errno in UNREACHABLE:
            return True
        error = error.__cause__ or error.__context__
    return False


def status_of(error: BaseException | None) -> int | None:
    """Return the HTTP status with which a server refused, of this package's client, aiohttp or botocore."""
    while error is not None:
        answer = getattr(error, "response", None)
        boto = answer.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(answer, dict) else None
        status = getattr(error, "status", boto)
        if isinstance(status, int):
            return status
        if isinstance(error, PermissionError):
            return 403
        error = error.__cause__ or error.__context__
    return None


def advice(error: BaseException) -> str:
    """Say whether a server answered at all, and what to do next."""
    if is_unreachable(error):
        return "no server can be reached there; check the address, the network, and that the server runs"
    if status_of(error) in (401, 403):
        return "the server refuses access; check your login or token, and that a repo of this name exists"
    return "check the address and the network, or try again later"


def in_a_line(error: BaseException) -> str:
    """Say what was wrong with a place, without its address."""
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    if isinstance(error, StorageError) and error.__cause__ is not None:
        return in_a_line(error.__cause__)
    if is_unreachable(error):
        return f"cannot be reached ({type(error).__name__}: {error})"
    line = str(error).strip().partition("\n")[0]
    return line if isinstance(error, ShiftdataError) else f"{type(error).__name__}: {line}".rstrip(": ")


def _is_final(error: Exception) -> bool:
    """Return True if another try would fail too: no server, no such file, or a refusal."""
    if is_unreachable(error) or isinstance(
        error, FileNotFoundError | PermissionError | ShiftdataError | NotImplementedError
    ):
        return True
    status = getattr(error, "status", None)
    return isinstance(status, int) and 400 <= status < 500 and status not in (408, 429)


def is_url(address: str) -> bool:
    """Return True for a URL, False for a path on this machine."""
    return URL.match(address) is not None


def is_of_tools(name: str) -> bool:
    """Return True for what git, and a download from the Hub, put into a folder for themselves."""
    return name.startswith(TOOLS)


class _Handle:
    """An open file, closed when the last thread that reads it has let go of it."""

    def __init__(self, path: Path) -> None:
        self.number = descriptor_of(path)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


class Folder(Store):
    """A folder on this machine; reading by position needs no lock."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path = absolute(folder)  # another working directory must not move it
        self.address = str(self.folder)
        self._handles: dict[str, _Handle] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Folder, (self.folder,)  # handles do not travel

    def listing(self) -> dict[str, FileInfo]:
        """List every file and link, nothing below a link to a folder."""
        paths = {name: self.folder / name for name in files_below(self.folder) if not is_of_tools(name)}
        return {name: _info(path.stat() if path.exists() else path.lstat()) for name, path in paths.items()}

    def info(self, path: str) -> FileInfo:
        return self._try(path, _info_of)

    def range(self, path: str, start: int, end: int) -> bytes:
        return self.ranges(path, [(start, end - start)])[0]

    def ranges(self, path: str, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        def read(_: Path) -> list[bytes]:
            handle = self._handle(path)
            return [read_at(handle.number, length, start) for start, length in wanted]

        wanted = list(ranges)
        data = self._try(path, read)
        for (start, length), piece in zip(wanted, data, strict=True):
            if len(piece) != length:
                raise self.failed(path, OSError(f"it ends before byte {start + length}"))
        return data

    def open(self, path: str) -> IO[bytes]:
        return self._try(path, open_regular)

    def download(self, path: str, file: Path, record: FileRecord, on_bytes: OnBytes) -> None:
        size = self.info(path).size
        if size != record.bytes:
            raise IntegrityError(f"{self.folder / path} has {size:,} bytes, not {record.bytes:,}")
        with self.open(path) as source:
            copy(source, file, record.bytes, on_bytes)

    def close(self) -> None:
        with self._lock:
            self._handles.clear()

    def failed(self, path: str, error: Exception) -> StorageError:
        if isinstance(error, FileNotFoundError):
            return MissingFileError(f"{self.folder / path} does not exist: fetch or build the dataset again")
        if getattr(error, "errno", None) in OUT_OF_SPACE:
            raise error  # it is about the file that is written
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        return StorageError(f"{self.folder / path} cannot be read ({reason}): check its rights and the disk")

    def _try(self, path: str, act: Callable[[Path], T]) -> T:
        try:
            return act(self.folder / path)
        except OSError as error:
            raise self.failed(path, error) from error

    def _handle(self, path: str) -> _Handle:
        with self._lock:
            handle = self._handles.pop(path, None) or _Handle(self.folder / path)
            self._handles[path] = handle
            if len(self._handles) > MOST_OPEN:
                del self._handles[next(iter(self._handles))]
            return handle


def files_below(folder: Path) -> Iterator[str]:
    """Yield every file and link below a folder, hidden ones too."""
    for parent, below, files in os.walk(folder):
        inside = Path(parent).relative_to(folder).as_posix()
        links = [name for name in below if os.path.islink(os.path.join(parent, name))]
        for name in [*files, *links]:
            yield name if inside == "." else f"{inside}/{name}"


def _info_of(file: Path) -> FileInfo:
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):  # a pipe or a device may have no end
        raise OSError("it is not a regular file")
    return _info(status)


def _info(status: os.stat_result) -> FileInfo:
    return FileInfo(size=status.st_size, version=f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}")


def copy(source: IO[bytes], file: Path, size: int, on_bytes: OnBytes) -> None:
    """Write the first `size` bytes of an open file to this machine, instead of what is there."""
    on_bytes(-file.stat().st_size if file.is_file() else 0)
    with open_new(file) as target:
        while size > 0 and (chunk := source.read(min(CHUNK, size))):
            target.write(chunk)
            on_bytes(len(chunk))
            size -= len(chunk)


def append_ranges(store: Store, path: str, file: Path, size: int, on_bytes: OnBytes) -> None:
    """Write a file of `size` bytes range by range, after those that are here already."""
    with open_new(file, keep=True) as target:
        if target.tell() > size:  # of another version
            on_bytes(-target.tell())
            target.seek(0)
            target.truncate()
        while (start := target.tell()) < size:
            data = store.range(path, start, min(start + CHUNK, size))
            target.write(data)
            target.flush()
            on_bytes(len(data))
