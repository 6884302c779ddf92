"""Images on disk under a size limit: one SQLite file, which any number of processes may share."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

FILE_NAME = "images.sqlite"
#: Seconds to wait for another process.
PATIENCE = 30
#: What an image may take beside its bytes: the rest of its last page, and splits of the index.
PAGES_BESIDE = 4 * 4096
TABLE = """
CREATE TABLE IF NOT EXISTS images (
    number INTEGER PRIMARY KEY, shard TEXT, start INTEGER, image BLOB, digest BLOB, UNIQUE (shard, start)
)
"""


class Cache:
    """Images by the hash of their shard and the byte at which they begin; the oldest go first.

    It is an aid: when the file is damaged or the disk full, images are fetched as if there were none.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.file = folder / FILE_NAME
        self.limit = limit

    def get(self, shard: str, starts: Iterable[int]) -> dict[int, bytes]:
        """Those images of a shard that are here, by where they begin; a damaged one is not."""
        found: dict[int, bytes] = {}

        def look(database: sqlite3.Connection) -> None:
            for start in starts:
                ask = "SELECT image, digest FROM images WHERE shard = ? AND start = ?"
                row = database.execute(ask, (shard, start)).fetchone()
                if row and _digest(row[0]) == row[1]:
                    found[start] = row[0]

        self._with_file(look)
        return found

    def put(self, shard: str, images: Iterable[tuple[int, bytes]]) -> None:
        """Keep some images of a shard, and let the oldest go while there are too many."""

        def keep(database: sqlite3.Connection) -> None:
            database.execute("BEGIN IMMEDIATE")
            for start, image in images:
                if self._made_room(database, len(image) + PAGES_BESIDE):
                    database.execute(
                        "INSERT OR REPLACE INTO images (shard, start, image, digest) VALUES (?, ?, ?, ?)",
                        (shard, start, image, _digest(image)),
                    )
            database.execute("COMMIT")

        self._with_file(keep)

    def _made_room(self, database: sqlite3.Connection, size: int) -> bool:
        """Let the oldest go until `size` bytes more are within the limit, in pages that are free again."""
        while _size(database) + size > self.limit:
            oldest = "SELECT number FROM images ORDER BY number LIMIT 1"
            if not database.execute(f"DELETE FROM images WHERE number = ({oldest})").rowcount:
                return False
        return True

    def _with_file(self, act: Callable[[sqlite3.Connection], None]) -> None:
        """Act on the database; it is closed after each call, so that no fork or thread shares a handle."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=PATIENCE, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = OFF")  # what a power cut damages is noticed
                database.execute(TABLE)
                act(database)
        except (OSError, sqlite3.OperationalError):
            return  # full, locked or read-only
        except sqlite3.DatabaseError:  # no database, or a damaged one
            self.file.unlink(missing_ok=True)


def _size(database: sqlite3.Connection) -> int:
    """The bytes of the pages that hold something."""
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _digest(image: bytes) -> bytes:
    return hashlib.blake2b(image, digest_size=16).digest()
