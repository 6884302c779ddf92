"""Images on disk: one SQLite file, which any number of processes may share."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

FILE_NAME = "images.sqlite"
#: Seconds to wait for another process.
LOCK_TIMEOUT = 30
TABLE = """
CREATE TABLE IF NOT EXISTS images (shard TEXT, start INTEGER, image BLOB, digest BLOB, UNIQUE (shard, start))
"""


class Cache:
    """Images by the hash of their shard and the byte at which they begin.

    It is an aid: when the file is damaged or the disk full, images are fetched as if there were none.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE_NAME

    def get(self, shard: str, starts: Iterable[int]) -> dict[int, bytes]:
        """Return the images of a shard that are here, by where they begin; a damaged one is not."""
        images: dict[int, bytes] = {}

        def look(database: sqlite3.Connection) -> None:
            for start in starts:
                query = "SELECT image, digest FROM images WHERE shard = ? AND start = ?"
                row = database.execute(query, (shard, start)).fetchone()
                if row and _digest(row[0]) == row[1]:
                    images[start] = row[0]

        self._with_file(look)
        return images

    def put(self, shard: str, images: Iterable[tuple[int, bytes]]) -> None:
        """Keep some images of a shard."""
        rows = [(shard, start, image, _digest(image)) for start, image in images]

        def keep(database: sqlite3.Connection) -> None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR REPLACE INTO images VALUES (?, ?, ?, ?)", rows)
            database.execute("COMMIT")

        self._with_file(keep)

    def _with_file(self, act: Callable[[sqlite3.Connection], None]) -> None:
        """Act on the database; it is closed after each call, so that no fork or thread shares a handle."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=LOCK_TIMEOUT, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = OFF")  # what a power cut damages is noticed
                database.execute(TABLE)
                act(database)
        except (OSError, sqlite3.OperationalError):
            return  # full, locked or read-only
        except sqlite3.DatabaseError:  # no database, or a damaged one
            self.file.unlink(missing_ok=True)


def _digest(image: bytes) -> bytes:
    return hashlib.blake2b(image, digest_size=16).digest()
