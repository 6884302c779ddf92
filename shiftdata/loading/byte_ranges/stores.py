"""Where shards are read from: files of this machine, or a remote place that fsspec reads."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from pathlib import Path
from typing import IO, Any, Protocol

from shiftdata.errors import IntegrityError, ShiftdataError, StorageError
from shiftdata.loading.byte_ranges.layout import Shard
from shiftdata.loading.byte_ranges.ranges import Span
from shiftdata.places.search import Place, filesystem, persistently


class _Wrong(OSError):
    """An answer that came and cannot be right: worth another try."""


class Store(Protocol):
    """A place that gives bytes of shards."""

    def is_known(self, shard: Shard) -> bool | None:
        """Whether a shard is the file of the manifest, by its size and a hash where that is cheap.

        None: the place does not say.
        """

    def fetch(self, shard: Shard, span: Span) -> list[bytes]:
        """The pieces of a span, each of its length, and of its hash where it has one."""

    def open(self, shard: Shard) -> IO[bytes]:
        """The shard as a file that reads no more than it is asked for."""

    def close(self) -> None:
        """Let go of handles and connections; they come again when needed."""


def store_of(place: Place) -> Store:
    """The store of a place."""
    return Remote(place.address) if place.folder is None else Local(place.folder)


class Local:
    """A folder; reading by position needs no lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, int] = {}
        self._lock = threading.Lock()

    def is_known(self, shard: Shard) -> bool:
        """By size."""
        return os.fstat(self._file(shard)).st_size == shard.bytes

    def fetch(self, shard: Shard, span: Span) -> list[bytes]:
        """Each piece by itself."""
        file = self._file(shard)
        found = [os.pread(file, piece.length, piece.start) for piece in span.pieces]
        try:
            _check(span, found)
        except _Wrong as error:
            raise _failed(str(self.root), shard, span, error) from error
        return found

    def open(self, shard: Shard) -> IO[bytes]:
        """The file."""
        return (self.root / shard.path).open("rb")

    def close(self) -> None:
        """Close every file."""
        with self._lock:
            while self._files:
                os.close(self._files.popitem()[1])

    def _file(self, shard: Shard) -> int:
        with self._lock:
            if shard.path not in self._files:
                try:
                    self._files[shard.path] = os.open(self.root / shard.path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError as error:
                    raise StorageError(
                        f"{self.root / shard.path} cannot be read ({error.strerror}): fetch or build it again"
                    ) from error
            return self._files[shard.path]


class Remote:
    """A URL, through a file system of its own for each process, whose connections end with `close`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._made: tuple[int, Any, str] | None = None
        self._infos: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def is_known(self, shard: Shard) -> bool | None:
        """By size, and by the sha256 that the Hub tells."""
        info = self._info(shard)
        if info.get("size") is None:
            return None
        told = (info.get("lfs") or {}).get("sha256") or str(info.get("ETag", "")).strip('"')
        other = re.fullmatch("[0-9a-f]{64}", told) is not None and told != shard.sha256
        return info["size"] == shard.bytes and not other

    def fetch(self, shard: Shard, span: Span) -> list[bytes]:
        """One request; again if it fails in a way that may pass."""

        def once() -> list[bytes]:
            data = self._bytes(shard, span.start, span.end)
            if len(data) != span.end - span.start:
                raise _Wrong(f"{len(data)} bytes came for {span.end - span.start}")
            found = [data[piece.start - span.start : piece.end - span.start] for piece in span.pieces]
            _check(span, found)
            return found

        try:
            return persistently(once)
        except ShiftdataError:
            raise
        except Exception as error:  # each backend has its own kinds
            raise _failed(self.url, shard, span, error) from error

    def open(self, shard: Shard) -> IO[bytes]:
        """The file, without reading ahead."""
        system, root = self._system()
        size = {"size": self._info(shard).get("size")} if self._is_http else {}
        file: IO[bytes] = system.open(f"{root}/{shard.path}", "rb", cache_type="none", **size)
        return file

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            made, self._made = self._made, None
        session = getattr(made[1], "_session", None) if made else None
        if made and session is not None and made[0] == os.getpid():
            made[1].close_session(made[1].loop, session)

    @property
    def _is_http(self) -> bool:
        return self.url.startswith(("http://", "https://"))

    def _system(self) -> tuple[Any, str]:
        """The file system; after a fork another, for connections cannot be shared."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                shared, root = filesystem(self.url)
                options = shared.storage_options | {"skip_instance_cache": True}
                self._made = (os.getpid(), type(shared)(*shared.storage_args, **options), root)
            return self._made[1], self._made[2]

    def _info(self, shard: Shard) -> dict[str, Any]:
        if shard.path not in self._infos:
            system, root = self._system()

            def once() -> dict[str, Any]:
                try:
                    found: dict[str, Any] = system.info(f"{root}/{shard.path}")
                except FileNotFoundError as error:  # over http: any failure
                    raise _Wrong(f"it is not there, or not to be reached: {error}") from error
                return found

            try:
                self._infos[shard.path] = persistently(once)
            except Exception as error:  # each backend has its own kinds
                raise StorageError(
                    f"{self.url}/{shard.path} cannot be looked at ({error}): "
                    "look at the address, the network and your access"
                ) from error
        return self._infos[shard.path]

    def _bytes(self, shard: Shard, start: int, end: int) -> bytes:
        """A byte range. Over http by way of an open file, which takes no whole file for a part of it."""
        system, root = self._system()
        path = f"{root}/{shard.path}"
        data: bytes
        if not self._is_http:
            # Only file systems with no way of their own to fetch a range take, and need, the option.
            plain = {} if getattr(system, "async_impl", False) else {"cache_type": "none"}
            data = system.cat_file(path, start=start, end=end, **plain)
            return data
        try:
            with system.open(path, "rb", cache_type="none", size=shard.bytes) as file:
                file.seek(start)
                data = file.read(end - start)
        except ValueError as error:
            raise StorageError(
                f"{self.url}/{shard.path}: the server gives no byte ranges ({error}): "
                "download the dataset and read the folder, or serve it by a server that knows Range"
            ) from error
        return data


def _check(span: Span, found: list[bytes]) -> None:
    for piece, data in zip(span.pieces, found, strict=True):
        if len(data) != piece.length:
            raise _Wrong(f"row {piece.row} has {len(data)} bytes, not {piece.length}")
        if piece.sha256 is not None and hashlib.sha256(data).digest() != piece.sha256:
            raise _Damaged(f"row {piece.row} has not the sha256 that metadata says")


class _Damaged(_Wrong):
    """Bytes of the right length and of another hash."""


def _failed(where: str, shard: Shard, span: Span, error: Exception) -> ShiftdataError:
    rows = sorted({span.pieces[0].row, span.pieces[-1].row})
    named = " to ".join(map(str, rows))
    said = f"{type(error).__name__}: {error}" if not isinstance(error, _Wrong) else str(error)
    if isinstance(error, _Damaged):
        return IntegrityError(
            f"{where}/{shard.path}: {said}: fetch or build the file again; "
            "`shiftdata verify` names all that is wrong"
        )
    return StorageError(
        f"{where}/{shard.path}: row {named} could not be read ({said}): "
        "look at the network, the disk and your access, then try again"
    )
