"""Fetched examples on disk, under a size limit; several processes may share one folder."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

__all__ = ["DiskCache"]

DIGEST = 32
CHECK_EVERY = 256  # writes, between two looks at the size of the whole
KEPT = 0.9  # of the limit, after the oldest were dropped


class DiskCache:
    """One file an example, named by what identifies it; it begins with the hash of its bytes.

    Files appear whole, and one that is damaged counts as absent. When the limit is passed, those that were
    read longest ago go.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._writes = 0
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> bytes | None:
        """The bytes of an example, or None."""
        path = self._path(name)
        try:
            data = path.read_bytes()
            if hashlib.sha256(data[DIGEST:]).digest() != data[:DIGEST]:
                path.unlink(missing_ok=True)
                return None
            os.utime(path)
        except OSError:
            return None
        return data[DIGEST:]

    def put(self, name: str, data: bytes) -> None:
        """Keep the bytes of an example; a disk that refuses is no error, they are only not kept."""
        path = self._path(name)
        try:
            path.parent.mkdir(exist_ok=True)
            number, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
            with os.fdopen(number, "wb") as stream:
                stream.write(hashlib.sha256(data).digest() + data)
            Path(temporary).replace(path)
        except OSError:
            return
        self._writes += 1
        if self._writes % CHECK_EVERY == 1:
            self.shrink()

    def shrink(self) -> None:
        """Drop what was read longest ago, until the rest is below the limit."""
        found = []
        for path in self.folder.glob("*/*"):
            try:
                told = path.stat()
            except OSError:
                continue  # another process was faster
            found.append((told.st_mtime, told.st_size, path))
        total = sum(size for _, size, _ in found)
        if total <= self.limit:
            return
        for _, size, path in sorted(found):
            path.unlink(missing_ok=True)
            total -= size
            if total <= KEPT * self.limit:
                break

    def _path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()
        return self.folder / digest[:2] / digest[2:34]
