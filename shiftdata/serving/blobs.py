"""Uploaded files, each once, by its sha256: whole and on the disk, or not there."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from shiftdata.serving.refusals import Refusal

#: Bytes of the disk that an upload must leave free.
RESERVE = 64 << 20

PIECE = 1 << 20


class Incoming:
    """A file that is being received: it is kept by `Blobs.keep`, or gone when the block is left."""

    def __init__(self, folder: Path) -> None:
        descriptor, name = tempfile.mkstemp(dir=folder, prefix="upload-")
        self.path = Path(name)
        self.size = 0
        self._file = os.fdopen(descriptor, "wb")
        self._hash = hashlib.sha256()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Close and remove what was not kept."""
        with suppress(OSError):  # a full disk is said where it is met
            self._file.close()
        self.path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._file.write(data)
        self._hash.update(data)
        self.size += len(data)

    @property
    def sha256(self) -> str:
        """The hash of what has come."""
        return self._hash.hexdigest()

    def sync(self) -> None:
        """Have all of it on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())


class Blobs:
    """`blobs/<two digits>/<sha256>` below a folder, and `tmp` for what is on its way."""

    def __init__(self, folder: Path) -> None:
        self._blobs = folder / "blobs"
        self.tmp = folder / "tmp"

    def path(self, sha256: str) -> Path:
        """Where a blob is, or would be."""
        return self._blobs / sha256[:2] / sha256

    def size(self, sha256: str) -> int | None:
        """The size of a blob; None if it is not here."""
        try:
            return self.path(sha256).stat().st_size
        except FileNotFoundError:
            return None

    def receive(self) -> Incoming:
        """A file to write what comes to."""
        return Incoming(self.tmp)

    def keep(self, incoming: Incoming) -> str:
        """Put a received file among the blobs, durably; give its hash."""
        sha256 = incoming.sha256
        path = self.path(sha256)
        if self.size(sha256) != incoming.size:
            incoming.sync()
            path.parent.mkdir(parents=True, exist_ok=True)
            incoming.path.chmod(0o444)
            incoming.path.replace(path)
            sync_folder(path.parent)
            sync_folder(self._blobs)
        return sha256

    def git_id(self, sha256: str) -> str:
        """The id that git gives a blob."""
        path = self.path(sha256)
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        with path.open("rb") as stream:
            while piece := stream.read(PIECE):
                digest.update(piece)
        return digest.hexdigest()

    def room_for(self, size: int) -> None:
        """Refuse what the disk cannot take."""
        free = shutil.disk_usage(self.tmp).free - RESERVE
        if size > free:
            raise Refusal(507, f"the mirror's disk has room for {max(free, 0):,} bytes, not for {size:,}")


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes, tmp: Path) -> None:
    """Write a small file durably: its old content is there, or its new one."""
    descriptor, name = tempfile.mkstemp(dir=tmp, prefix="small-")
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    path.parent.mkdir(parents=True, exist_ok=True)
    Path(name).replace(path)
    sync_folder(path.parent)
