"""Uploaded files, each once, by its sha256: whole and on the disk, or absent."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from shiftdata.serving.refusals import Refusal

#: Bytes of the disk that an upload must leave free.
RESERVE = 64 << 20


class Incoming:
    """A file that is being received: `Blobs.keep` keeps it, `drop` removes what was not kept."""

    def __init__(self, folder: Path) -> None:
        descriptor, name = tempfile.mkstemp(dir=folder, prefix="upload-")
        self.path, self.size = Path(name), 0
        self.file, self._hash = os.fdopen(descriptor, "wb"), hashlib.sha256()

    def drop(self) -> None:
        with suppress(OSError):  # a full disk is reported where it is met
            self.file.close()
        self.path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self._hash.update(data)
        self.size += len(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class Blobs:
    """`blobs/<two digits>/<sha256>` below a folder, and `tmp` for what is on its way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "blobs"
        self.tmp = folder / "tmp"

    def prepare(self) -> None:
        """Make the folders, and clear what was on its way when a server was killed."""
        shutil.rmtree(self.tmp, ignore_errors=True)
        for folder in (self.folder, self.tmp):
            folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256

    def size(self, sha256: str) -> int | None:
        """The size of a blob; None if it is not here."""
        try:
            return self.path(sha256).stat().st_size
        except FileNotFoundError:
            return None

    def receive(self) -> Incoming:
        return Incoming(self.tmp)

    def keep(self, incoming: Incoming) -> str:
        """Put a received file among the blobs, durably; return its hash."""
        path = self.path(incoming.sha256)
        if self.size(incoming.sha256) != incoming.size:
            incoming.file.flush()
            os.fsync(incoming.file.fileno())
            path.parent.mkdir(parents=True, exist_ok=True)
            incoming.path.chmod(0o444)
            incoming.path.replace(path)
            sync_folder(path.parent)
            sync_folder(self.folder)
        return incoming.sha256

    def git_id(self, sha256: str) -> str:
        path = self.path(sha256)
        start = b"blob %d\0" % path.stat().st_size
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.sha1(start, usedforsecurity=False))
        return digest.hexdigest()

    def check_room(self, size: int) -> None:
        free = shutil.disk_usage(self.tmp).free - RESERVE
        if size > free:
            raise Refusal(507, f"the mirror's disk has room for {max(free, 0):,} bytes, not for {size:,}")


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes, tmp: Path) -> None:
    """Write a small file durably: it has its old content, or its new one."""
    descriptor, name = tempfile.mkstemp(dir=tmp, prefix="small-")
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    path.parent.mkdir(parents=True, exist_ok=True)
    Path(name).replace(path)
    sync_folder(path.parent)
