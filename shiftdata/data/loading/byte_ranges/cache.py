"""A folder on this machine with byte ranges of shards: few files, a limit, and no index that could be wrong.

A shard is cut into blocks, and a block is a sparse file with the bytes at their places in it. What it has is
not written down anywhere: who reads a range compares its hash, and a hole, a torn write and a flipped bit all
have another one. So processes share a folder without locks (all write the same bytes to the same places), and
one that is killed leaves nothing to mend. The blocks that were used longest ago are removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from shiftdata.files import NO_LINK, PLAIN
from shiftdata.logs import logger

#: Bytes of a shard that are in one file, and removed together.
BLOCK = 64 << 20
#: The part of the limit that a process may write before it looks how much there is, and that is then freed.
SLACK = 1 / 16
#: Seconds for which the time of a block's last use may be late.
TOUCH = 60.0
LOG = logger(__name__)


class RangeCache:
    """Byte ranges of files, which are named by their sha256, in at most `limit` bytes of a folder.

    Several processes that fill it at once may pass the limit by a sixteenth each.
    """

    def __init__(self, folder: Path, limit: int | None) -> None:
        self.folder, self.limit = folder, limit
        self._unseen = limit or 0  # bytes written since the last look at the folder: at first anything
        self._touched: dict[Path, float] = {}
        self._failed = False

    def read(self, sha256: str, start: int, length: int) -> bytes | None:
        """Return the bytes that may be those of a range, for the caller to compare with their hash."""
        data = bytearray()
        try:
            for path, offset, size in self._stretches(sha256, start, length):
                with open(os.open(path, os.O_RDONLY | PLAIN | NO_LINK), "rb", buffering=0) as file:
                    file.seek(offset)
                    data += file.read(size)
                self._touch(path)
        except OSError:
            return None
        # A hole is zeros: no need to hash them.
        return bytes(data) if len(data) == length and data.rstrip(b"\0") else None

    def write(self, sha256: str, start: int, data: bytes) -> None:
        """Keep a range. A folder that is full or cannot be written to keeps nothing."""
        if self.limit is not None and len(data) > self.limit:
            return
        view = memoryview(data)
        try:
            for path, offset, size in self._stretches(sha256, start, len(data)):
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(
                    os.open(path, os.O_WRONLY | os.O_CREAT | PLAIN | NO_LINK, 0o666), "wb", buffering=0
                ) as file:
                    file.seek(offset)
                    file.write(view[:size])
                view = view[size:]
        except OSError as error:
            if not self._failed:
                LOG.warning("%s keeps no more bytes (%s): they are fetched each time", self.folder, error)
            self._failed = True
        self._unseen += len(data)
        if self.limit is not None and self._unseen > self.limit * SLACK:
            self._unseen = 0
            self._evict(self.limit)

    def _stretches(self, sha256: str, start: int, length: int) -> Iterator[tuple[Path, int, int]]:
        """Yield the file, the offset in it and the bytes of each block of a range."""
        end = start + length
        while start < end:
            block, offset = divmod(start, BLOCK)
            size = min(BLOCK - offset, end - start)
            yield self.folder / sha256 / str(block), offset, size
            start += size

    def _touch(self, path: Path) -> None:
        now = time.monotonic()
        if now - self._touched.get(path, -TOUCH) >= TOUCH:
            self._touched[path] = now
            os.utime(path)

    def _evict(self, limit: int) -> None:
        """Remove the blocks that were used longest ago, if all take more than the limit less the slack.

        A process that has a removed block open goes on with it, and another may remove the same ones.
        """
        blocks, total = [], 0
        for path in self.folder.glob("*/*"):
            with suppress(OSError):
                status = path.lstat()
                # What a sparse file takes on the disk, where the system says it.
                used = getattr(status, "st_blocks", 0) * 512 or status.st_size
                blocks.append((status.st_mtime_ns, used, path))
                total += used
        for _, used, path in sorted(blocks):
            if total <= limit * (1 - SLACK):
                return
            with suppress(OSError):
                path.unlink()
            total -= used
