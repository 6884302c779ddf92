"""Read a spool once, from its first block to its last, and give its rows in the order of the files.

An external sort: some blocks at a time are put into that order in memory and appended to a scratch file as a
run; a stretch of the files is then a piece of each run. The scratch file takes as much disk as all examples
and params. It has no name: however a build ends, nothing of it is left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypeAlias

import numpy as np
import pyarrow as pa

from builders.spool import Spool
from shiftdata.errors import IntegrityError
from shiftdata.files import clear_when_full, read_at
from shiftdata.format.writer import Indices
from shiftdata.threads import ahead, available_cores

BYTES_OF_RUN = 64 << 20
VALUES_AT_ONCE = 1000
COLUMNS = ("example", "params")

#: The bytes of each row's value, by column.
Values: TypeAlias = dict[str, list[memoryview]]


@dataclass(frozen=True)
class Run:
    """Rows in the order of their places, and by column the bounds of their values in the scratch file."""

    places: Indices
    bounds: Mapping[str, Indices]


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
    spool: Spool, blocks: Sequence[str], counts: Sequence[int], places: Indices, folder: Path
) -> Iterator[Reordered]:
    """Some blocks with `counts` rows each, of which every row has a place: -1 for rows that are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = zip(blocks, counts, (table for table, _ in spool.blocks(blocks)), strict=True)
    checked = ahead(lambda job: _checked(spool, *job), jobs, available_cores())
    with clear_when_full(folder), TemporaryFile(dir=folder) as scratch:
        runs, start = [], 0
        for some in _together(checked):
            stop = start + len(some[COLUMNS[0]])
            runs.append(_write_run(scratch, some, places[start:stop]))
            start = stop
        scratch.flush()
        yield Reordered(scratch, runs)


def _checked(spool: Spool, block: str, count: int, table: pa.Table) -> Values:
    """Examples, which are what their hashes say, and params of a block."""
    values = {name: _slices(table[name]) for name in COLUMNS}
    examples = values[COLUMNS[0]]
    right = [hashlib.sha256(example).digest() for example in examples] == table["sha256"].to_pylist()
    if not right or len(table) != count or list(map(len, examples)) != table["size"].to_pylist():
        raise IntegrityError(f"{spool.path(block)} is damaged: delete it and run the same command again")
    return values


def _slices(column: pa.ChunkedArray) -> list[memoryview]:
    """The bytes of each value where they lie."""
    _, offsets, data = column.combine_chunks().cast(pa.large_binary()).buffers()
    bounds = np.frombuffer(offsets, np.int64)[: len(column) + 1].tolist()
    view = memoryview(data if data is not None else b"")
    return [view[start:stop] for start, stop in pairwise(bounds)]


def _together(blocks: Iterable[Values]) -> Iterator[Values]:
    """As many blocks at a time as make a run."""
    some: Values = {name: [] for name in COLUMNS}
    size = 0
    for block in blocks:
        for name, values in block.items():
            some[name] += values
            size += sum(map(len, values))
        if size >= BYTES_OF_RUN:
            yield some
            some, size = {name: [] for name in COLUMNS}, 0
    if some[COLUMNS[0]]:
        yield some


def _write_run(scratch: IO[bytes], some: Values, places: Indices) -> Run:
    """Append the values of rows that have a place, in the order of their places."""
    kept = np.flatnonzero(places >= 0)
    order = kept[np.argsort(places[kept])]
    bounds = {}
    for name in COLUMNS:
        values = [some[name][row] for row in order.tolist()]
        ends = np.cumsum([scratch.tell(), *map(len, values)])
        for start in range(0, len(values), VALUES_AT_ONCE):
            scratch.write(b"".join(values[start : start + VALUES_AT_ONCE]))
        bounds[name] = ends
    return Run(places[order], bounds)
