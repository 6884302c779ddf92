"""Bring the rows of a data file beside the rows that the metadata has of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.verifying.metadata import LONG, SplitRows, long_columns
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.tables import Part, picked


@dataclass
class Tally:
    """What was found in some rows. Problems with offsets are apart: another writer makes them all."""

    offsets: list[Problem] = field(default_factory=list)
    others: list[Problem] = field(default_factory=list)
    rows: int = 0
    unreadable: int = 0

    def add(self, other: Tally) -> None:
        """Add what was found in other rows."""
        self.offsets += other.offsets
        self.others += other.others
        self.rows += other.rows
        self.unreadable += other.unreadable


@dataclass(frozen=True)
class Aligned:
    """Rows of a data file and, one for one, their metadata; None where a side could not be read.

    `loose` are the rows whose metadata could not be read, and `own` all rows, where any could not.
    """

    tally: Tally
    data: pa.Table | None = None
    meta: pa.Table | None = None
    loose: pa.Table | None = None
    own: pa.Table | None = None


class Aligner:
    """Finds the metadata of rows: by position, as promised, and where that fails by key.

    `first` is the metadata row that the first of the file's `count` rows should have.
    """

    def __init__(self, path: str, metadata: SplitRows, first: int, count: int) -> None:
        self.path, self.metadata, self.first, self.count = path, metadata, first, count
        self._seen = [np.empty(0, dtype=np.int64)]
        self._moved = 0

    def align(self, part: Part, tally: Tally) -> Aligned:
        """A part beside its metadata; rows that whole metadata does not have are told and left out."""
        rows = self._expected(np.arange(part.first, part.first + part.count))
        if part.table is None:
            rows = rows[rows >= 0]
            self._seen.append(rows)
            return Aligned(tally, meta=picked(self.metadata.table, rows))
        data, loose = part.table, None
        if (rows < 0).any() or not picked(self.metadata.table, rows)["key"].equals(data["key"]):
            rows = self._by_key(data, rows, tally)
            loose = data.filter(pa.array(rows < 0))
            data, rows = data.filter(pa.array(rows >= 0)), rows[rows >= 0]
        self._seen.append(rows)
        meta = picked(self.metadata.table, rows)
        texts = self._long(self.metadata.at[rows])
        for name in LONG:
            meta = meta.append_column(name, texts[name])
        if self.metadata.whole:
            return Aligned(tally, data, meta)
        return Aligned(tally, data, meta, loose, part.table)

    def problems(self) -> Iterator[Problem]:
        """Rows that stand elsewhere than the metadata says, and rows that were nowhere in the file."""
        if self._moved:
            what = f"holds {self._moved} rows in another order than {self.metadata.path}"
            yield Problem(path=self.path, what=what, kind="order")
        expected = self._expected(np.arange(self.count))
        for row in np.setdiff1d(expected[expected >= 0], np.concatenate(self._seen)):
            what = f"is not in the file, where {self.metadata.path} has it"
            key = self.metadata.table["key"][row].as_py()
            yield Problem(path=self.path, what=what, key=key, kind="lost")

    def _expected(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The place in the metadata table of rows of the file; -1 where that row could not be read."""
        at, wanted = self.metadata.at, rows + self.first
        if not len(at):
            return np.full(len(rows), -1)
        place = np.minimum(np.searchsorted(at, wanted), len(at) - 1)
        found: NDArray[np.int64] = np.where(at[place] == wanted, place, -1)
        return found

    def _by_key(self, data: pa.Table, rows: NDArray[np.int64], tally: Tally) -> NDArray[np.int64]:
        keys = data["key"].to_pylist()
        found = np.array([self._row_of.get(key, -1) for key in keys], dtype=np.int64)
        self._moved += int(((found != rows) & (found >= 0)).sum())
        if self.metadata.whole:
            for row in np.flatnonzero(found < 0):
                what = f"is not in {self.metadata.path}"
                tally.others.append(Problem(path=self.path, what=what, key=keys[row], kind="unknown"))
        return found

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.metadata.table["key"].to_pylist())}

    @cached_property
    def _long(self) -> Callable[[NDArray[np.int64]], pa.Table]:
        return long_columns(self.metadata)
