"""Read a spool once, from its first block to its last, and give its rows in the order of the files.

An external sort: some blocks at a time are put into that order in memory and appended to a scratch file as a
run; a stretch of the files is then a piece of each run. The scratch file takes as much disk as all examples
and params. It has no name: however a build ends, nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import pyarrow as pa

from builders.spool import Spool
from shiftdata.data.arrays import IntArray
from shiftdata.errors import IntegrityError
from shiftdata.files import clear_when_full, read_at
from shiftdata.threads import ahead

BYTES_OF_RUN = 64 << 20
COLUMNS = ("example", "params")


@dataclass(frozen=True)
class Run:
    """Rows in the order of their places, and by column the bounds of their values in the scratch file."""

    places: IntArray
    bounds: Mapping[str, IntArray]


@dataclass(frozen=True)
class Reordered:
    """Examples and params by the place of their row. Several threads may read."""

    scratch: IO[bytes]
    runs: Sequence[Run]

    def read(self, column: str, start: int, stop: int) -> pa.BinaryArray:
        """The values from one place to before another."""
        pieces, lengths, places = [], [], []
        for run in self.runs:
            first, last = np.searchsorted(run.places, (start, stop))
            if first < last:
                bounds = run.bounds[column][first : last + 1]
                pieces.append(read_at(self.scratch.fileno(), int(bounds[-1] - bounds[0]), int(bounds[0])))
                lengths.append(np.diff(bounds))
                places.append(run.places[first:last])
        offsets = np.cumsum(np.concatenate([[0], *lengths])).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(pieces))]
        values = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        return values if len(pieces) == 1 else values.take(pa.array(np.argsort(np.concatenate(places))))


@contextmanager
def reordered(
    spool: Spool, blocks: Sequence[str], counts: Sequence[int], places: IntArray, folder: Path
) -> Iterator[Reordered]:
    """Some blocks with `counts` rows each, of which every row has a place: -1 for rows that are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    with clear_when_full(folder), TemporaryFile(dir=folder) as scratch:
        pieces = _together(_whole(spool, blocks, counts), places)
        runs = list(ahead(lambda piece: _write_run(scratch, *piece), pieces, 1, queued=1))
        scratch.flush()
        yield Reordered(scratch, runs)


def _whole(spool: Spool, blocks: Sequence[str], counts: Sequence[int]) -> Iterator[pa.Table]:
    """Examples and params of each block, which has as many rows as it had when it was gathered."""
    for block, count, (table, _) in zip(blocks, counts, spool.blocks(blocks), strict=True):
        if len(table) != count:
            raise IntegrityError(f"{spool.path(block)} has changed meanwhile: run the same command again")
        yield table.select(COLUMNS)


def _lies(values: pa.Array) -> tuple[IntArray, pa.Buffer]:
    """Return the offsets of values, the end of the last included, and the buffer of their bytes."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1].astype(np.int64)
    return bounds, data if data is not None else pa.py_buffer(b"")


def _together(blocks: Iterable[pa.Table], places: IntArray) -> Iterator[tuple[pa.Table, IntArray]]:
    """As many blocks at a time as make a run, and the places of their rows."""
    run: list[pa.Table] = []
    size = 0
    for block in blocks:
        run.append(block)
        size += block.nbytes
        if size >= BYTES_OF_RUN:
            rows = pa.concat_tables(run)
            yield rows, places[: len(rows)]
            run, size, places = [], 0, places[len(rows) :]
    if run:
        yield pa.concat_tables(run), places


def _write_run(scratch: IO[bytes], rows: pa.Table, places: IntArray) -> Run:
    """Append the values of rows that have a place, in the order of their places."""
    placed = np.flatnonzero(places >= 0)
    order = placed[np.argsort(places[placed])]
    bounds = {}
    for name in COLUMNS:
        begins, data = _lies(rows[name].combine_chunks().take(pa.array(order)))
        bounds[name] = begins - begins[0] + scratch.tell()
        scratch.write(memoryview(data)[begins[0] : begins[-1]])
    return Run(places[order], bounds)
