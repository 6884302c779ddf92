"""Examples by row group: texts, tables, and images of a shard that is not the one the manifest knows."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.errors import IntegrityError, ShiftdataError, StorageError
from shiftdata.format.schema import example_bytes
from shiftdata.loading.byte_ranges.layout import Indices, Layout, Shard
from shiftdata.places.retry import persistently
from shiftdata.places.store import Store
from shiftdata.threads import in_threads

#: Bytes of examples that are kept in memory, so that batches of rows in any order read a row group once.
KEPT = 256 * 2**20


class RowGroups:
    """Reads whole row groups, and keeps those that were used last."""

    def __init__(self, layout: Layout, store: Store) -> None:
        self._layout = layout
        self._store = store
        self._footers: dict[str, pq.FileMetaData] = {}
        self._held: OrderedDict[tuple[str, int], list[bytes]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(
        self, shard: Shard, positions: Indices, *, verify: bool, connections: int
    ) -> Iterator[tuple[list[tuple[int, bytes]], bool]]:
        """Examples with their positions, a row group at a time, and whether it had to be read."""
        firsts = self._firsts(shard)
        rows = positions - shard.first
        groups = np.searchsorted(firsts, rows, side="right") - 1
        hashes = self._layout.hashes(shard, positions) if verify else None

        def one(group: int) -> tuple[list[tuple[int, bytes]], bool]:
            examples, fresh = self._group(shard, group)
            chosen = np.flatnonzero(groups == group).tolist()
            found = [(int(positions[n]), examples[int(rows[n] - firsts[group])]) for n in chosen]
            for number, (_, data) in zip(chosen, found, strict=True):
                if hashes is not None and hashlib.sha256(data).digest() != hashes[number]:
                    raise IntegrityError(
                        f"{self._store.address}/{shard.path}: row {rows[number]} does not have the sha256 "
                        "that its metadata says: fetch or build the file again; `shiftdata verify` lists "
                        "everything that is wrong"
                    )
            return found, fresh

        yield from in_threads(one, np.unique(groups).tolist(), connections)

    def _firsts(self, shard: Shard) -> Indices:
        """The first row of each row group."""
        if shard.path not in self._footers:
            self._footers[shard.path] = self._tried(shard, "its footer", lambda file: pq.read_metadata(file))
        footer = self._footers[shard.path]
        if footer.num_rows != shard.rows:
            raise IntegrityError(
                f"{self._store.address}/{shard.path} has {footer.num_rows} rows, the manifest says "
                f"{shard.rows}: fetch or build the dataset again"
            )
        sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        return np.cumsum([0, *sizes[:-1]], dtype=np.int64)

    def _group(self, shard: Shard, group: int) -> tuple[list[bytes], bool]:
        """The examples of a row group, and whether they were read just now."""
        with self._lock:
            if (shard.path, group) in self._held:
                self._held.move_to_end((shard.path, group))
                return self._held[shard.path, group], False
        roles = self._layout.dataset.manifest.roles
        names = list(roles.example)

        def act(file: Any) -> pa.Table:
            read = pq.ParquetFile(file, metadata=self._footers[shard.path], pre_buffer=True)
            return read.read_row_group(group, columns=names)

        examples = example_bytes(self._tried(shard, f"row group {group}", act), roles)
        with self._lock:
            if (shard.path, group) not in self._held:
                self._held[shard.path, group] = examples
                self._size += sum(map(len, examples))
            while self._size > KEPT and len(self._held) > 1:
                self._size -= sum(map(len, self._held.popitem(last=False)[1]))
        return examples, True

    def _tried(self, shard: Shard, what: str, act: Any) -> Any:
        def once() -> Any:
            with self._store.open(shard.path) as file:
                return act(file)

        try:
            return persistently(once)
        except ShiftdataError:
            raise
        except Exception as error:  # each backend has its own kinds
            raise StorageError(
                f"{self._store.address}/{shard.path}: {what} could not be read "
                f"({type(error).__name__}: {error}): look at the network and your access, or fetch it again"
            ) from error
