"""Where each example lies: the pointer columns of the metadata, each read when it is first needed."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.columns import read_columns
from shiftdata.manifest import Manifest
from shiftdata.places import Place
from shiftdata.schema import SPLITS

__all__ = ["Pointers"]


class Pointers:
    """The pointers of one base; its rows count as in `shiftdata.Metadata`, the splits one after another."""

    def __init__(self, place: Place, manifest: Manifest, base: str) -> None:
        self._place = place
        self._base = base
        self._splits = [split for split in SPLITS if split in manifest.base(base).splits]
        self._shards = [
            sorted(name for name in manifest.files if name.startswith(f"data/{base}/{split}-"))
            for split in self._splits
        ]
        sizes = [manifest.base(base).splits[split].rows for split in self._splits]
        self._first = np.concatenate([[0], np.cumsum(sizes)])
        self._read: dict[tuple[int, str], pa.ChunkedArray] = {}
        self._arrays: dict[tuple[int, str], NDArray[np.int64]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._first[-1])

    def shard(self, row: int) -> str:
        """The shard in which a row lies."""
        split, _ = self._at(row)
        return self._shards[split][self._number(row, "shard")]

    def in_shard(self, row: int) -> int:
        """The place of a row among those of its shard."""
        return self._number(row, "row")

    def span(self, row: int) -> tuple[int, int]:
        """The offset and the length of an image in its shard."""
        return self._number(row, "offset"), self._number(row, "length")

    def sha256(self, row: int) -> bytes:
        """The hash of an example."""
        split, place = self._at(row)
        with self._lock:
            column = self._column(split, "sha256")
        return bytes(column[place].as_py())

    def _at(self, row: int) -> tuple[int, int]:
        split = int(np.searchsorted(self._first, row, side="right")) - 1
        return split, row - int(self._first[split])

    def _number(self, row: int, name: str) -> int:
        split, place = self._at(row)
        with self._lock:
            if (split, name) not in self._arrays:
                values: Any = self._column(split, name).to_numpy()  # texts and tables have no offsets: nan
                self._arrays[split, name] = np.nan_to_num(values).astype(np.int64)
            return int(self._arrays[split, name][place])

    def _column(self, split: int, name: str) -> pa.ChunkedArray:
        """A column of a split; where an image lies takes three, which come together."""
        if (split, name) not in self._read:
            where = ("shard", "offset", "length")
            names = where if name in where else (name,)
            path = f"metadata/{self._base}/{self._splits[split]}.parquet"
            table = read_columns(self._place, path, names)
            self._read |= {(split, one): table[one] for one in names}
        return self._read[split, name]
