"""Runs: stretches of a spool, each with its examples and params in the order of the files.

They are the first half of an external sort: a stretch of the files is a piece of each run. A run is whole or
absent. It is not synced, for it takes long and can be made again: its last bytes are a hash of the others, by
which a run that an earlier, killed process has left is checked.

A file has a count of rows, three lists of a number more than that (the places of the rows, and where their
examples and params begin in the file), the examples, the params, the hash.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias
from weakref import finalize

import numpy as np
import pyarrow as pa
from xxhash import xxh3_128, xxh3_128_digest

from shiftdata.data.arrays import IntArray
from shiftdata.errors import IntegrityError
from shiftdata.files import PLAIN, clear_when_full, open_new, read_at, remove

Column: TypeAlias = Literal["example", "params"]
COLUMNS: tuple[Column, ...] = ("example", "params")
WORD = np.dtype(np.int64).itemsize
#: Runs whose files are open at once, two descriptors each.
OPEN = 200
#: Bytes that are read at once to check a hash.
PIECE = 1 << 20


def write_run(path: Path, tables: Iterable[pa.Table], places: IntArray) -> None:
    """Write the rows of some tables, each of which has a place: -1 for those that are left out."""
    rows = pa.concat_tables(tables)
    placed = np.flatnonzero(places >= 0)
    order = placed[np.argsort(places[placed])]
    index = np.empty((1 + len(COLUMNS), len(order) + 1), np.int64)
    index[0, :-1], index[0, -1] = places[order], np.iinfo(np.int64).max
    start, values = WORD + index.nbytes, list[bytes | memoryview]()
    for number, name in enumerate(COLUMNS, start=1):
        bounds, data = _lies(rows[name].combine_chunks().take(pa.array(order)))
        index[number] = bounds - bounds[0] + start
        start = int(index[number, -1])
        values.append(memoryview(data)[bounds[0] : bounds[-1]])
    del rows
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with clear_when_full(path), open_new(temporary) as file:
            digest = xxh3_128()
            for part in (np.int64(len(order)).tobytes() + index.tobytes(), *values):
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
        temporary.replace(path)
    finally:
        remove(temporary)


def is_whole(path: Path) -> bool:
    """Return True for a run that is as it was written."""
    if not path.is_file():
        return False
    left, digest = path.stat().st_size - len(xxh3_128_digest(b"")), xxh3_128()
    with path.open("rb") as file:
        while left > 0 and (piece := file.read(min(left, PIECE))):
            digest.update(piece)
            left -= len(piece)
        return digest.digest() == file.read()


class Runs:
    """Examples and params of a base by the place of their row. Several threads may read."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self._opened = lru_cache(maxsize=OPEN)(_Run)

    def read(self, column: Column, start: int, stop: int) -> pa.BinaryArray:
        """Return the values from one place to before another."""
        pieces, lengths, places = [], [], []
        for path in self.paths:
            run = self._opened(path)
            first, last = np.searchsorted(run.index[0], (start, stop))
            if first < last:
                bounds = run.index[1 + COLUMNS.index(column), first : last + 1]
                pieces.append(run.read(int(bounds[0]), int(bounds[-1])))
                lengths.append(np.diff(bounds))
                places.append(run.index[0, first:last])
        offsets = np.cumsum(np.concatenate([[0], *lengths])).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(pieces))]
        values = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        return values if len(pieces) == 1 else values.take(pa.array(np.argsort(np.concatenate(places))))


class Held:
    """Examples and params of a base in memory, by the place of their row; several threads may read."""

    def __init__(self, tables: Iterable[pa.Table], places: IntArray) -> None:
        rows = pa.concat_tables(tables)
        self._values = {name: rows[name].combine_chunks() for name in COLUMNS}
        placed = np.flatnonzero(places >= 0)
        self._rows = np.empty(len(placed), np.int64)
        self._rows[places[placed]] = placed

    def read(self, column: Column, start: int, stop: int) -> pa.BinaryArray:
        """Return the values from one place to before another."""
        return self._values[column].take(pa.array(self._rows[start:stop])).cast(pa.binary())


class _Run:
    """An open run: only the pages of its lists that are needed are in memory."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, os.open(path, os.O_RDONLY | PLAIN)
        finalize(self, os.close, self.file)
        count = int.from_bytes(self.read(0, WORD), "little")
        self.index = np.memmap(path, np.int64, "r", WORD, (1 + len(COLUMNS), count + 1))

    def read(self, start: int, stop: int) -> bytes:
        data = read_at(self.file, stop - start, start)
        if len(data) != stop - start:
            raise IntegrityError(f"{self.path} is cut off: run the same command again")
        return data


def _lies(values: pa.Array) -> tuple[IntArray, pa.Buffer]:
    """Return the offsets of values, the end of the last included, and the buffer of their bytes."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1].astype(np.int64)
    return bounds, data if data is not None else pa.py_buffer(b"")
