"""Where each example lies: the pointer columns of the metadata, read when they are first needed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.errors import IntegrityError
from shiftdata.manifest import Manifest
from shiftdata.places import Place, filesystem, persistently
from shiftdata.schema import SPLITS

__all__ = ["Pointers", "Rows"]


@dataclass(frozen=True)
class Rows:
    """For each row of a base, in the order of `shiftdata.Metadata`: its shard, its row there, its bytes."""

    shard: NDArray[np.int64]
    row: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]


class Pointers:
    """The pointers of one base; hashes only if they are asked for."""

    def __init__(self, place: Place, manifest: Manifest, base: str) -> None:
        self._place = place
        self._base = base
        self.splits = [split for split in SPLITS if split in manifest.base(base).splits]
        self.shards: list[str] = []
        self._first: list[int] = []
        for split in self.splits:
            self._first.append(len(self.shards))
            self.shards += sorted(name for name in manifest.files if name.startswith(f"data/{base}/{split}-"))
        self.n = sum(manifest.base(base).splits[split].rows for split in self.splits)
        self._lock = threading.Lock()

    @property
    def rows(self) -> Rows:
        """Where every row lies."""
        with self._lock:
            return self._rows

    def sha256(self, row: int) -> bytes:
        """The hash of an example."""
        with self._lock:
            return bytes(self._hashes[row].as_py())

    @cached_property
    def _rows(self) -> Rows:
        parts = [self._read(split, ["shard", "row", "offset", "length"]) for split in self.splits]
        shard = [part["shard"].to_numpy() + first for part, first in zip(parts, self._first, strict=True)]
        others = [
            np.concatenate([np.nan_to_num(part[name].to_numpy()) for part in parts]).astype(np.int64)
            for name in ("row", "offset", "length")
        ]
        return Rows(np.concatenate(shard).astype(np.int64), *others)

    @cached_property
    def _hashes(self) -> pa.ChunkedArray:
        return pa.concat_tables([self._read(split, ["sha256"]) for split in self.splits])["sha256"]

    def _read(self, split: str, columns: list[str]) -> pa.Table:
        path = f"metadata/{self._base}/{split}.parquet"
        try:
            if self._place.folder is not None:
                return pq.read_table(self._place.folder / path, columns=columns)
            system, root = filesystem(self._place.address)
            return persistently(
                lambda: pq.read_table(
                    system.open(f"{root}/{path}", "rb", cache_type="none"), columns=columns, pre_buffer=True
                )
            )
        except (pa.ArrowInvalid, OSError) as error:
            raise IntegrityError(
                f"{self._place.source}: {path} cannot be read ({error}): fetch or build the dataset again"
            ) from error
