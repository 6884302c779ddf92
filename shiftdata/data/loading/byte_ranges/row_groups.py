"""Examples by row group: texts, tables, and images of a shard that is not the one in the manifest."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.bounds import read_group
from shiftdata.data.format.schema import example_bytes
from shiftdata.data.loading.byte_ranges.layout import Layout, Shard, wrong_hash
from shiftdata.data.places.store import Store
from shiftdata.errors import IntegrityError
from shiftdata.threads import in_threads

#: Bytes of examples that are kept in memory, so that batches of rows in any order read a row group once.
MEMORY = 256 * 2**20


class RowGroups:
    """Reads whole row groups, and keeps those that were used last."""

    def __init__(self, layout: Layout, store: Store) -> None:
        self._layout = layout
        self._store = store
        self._groups: OrderedDict[tuple[str, int], list[bytes]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(
        self, shard: Shard, positions: IntArray, verify: bool, connections: int
    ) -> Iterator[dict[int, bytes]]:
        """Yield examples by position, a row group at a time."""
        footer = self._footer(shard)
        sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        firsts = np.cumsum([0, *sizes[:-1]], dtype=np.int64)
        rows = positions - shard.first
        groups = np.searchsorted(firsts, rows, side="right") - 1
        hashes = self._layout.hashes(shard, positions).tolist() if verify else None

        def read(group: int) -> dict[int, bytes]:
            examples = self._group(shard, group)
            chosen = {}
            for number in np.flatnonzero(groups == group).tolist():
                data = chosen[int(positions[number])] = examples[int(rows[number] - firsts[group])]
                if hashes is not None and hashlib.sha256(data).digest() != hashes[number]:
                    raise wrong_hash(self._store, shard, rows[number])
            return chosen

        yield from in_threads(read, np.unique(groups).tolist(), connections)

    def _footer(self, shard: Shard) -> pq.FileMetaData:
        address = f"{self._store.address}/{shard.path}"
        dataset = self._layout.dataset
        footer = dataset.keep(("footer", address), lambda: self._tried(shard, pq.read_metadata))
        if footer.num_rows != shard.rows:
            raise IntegrityError(
                f"{address} has {footer.num_rows} rows, the manifest says {shard.rows}: fetch or build the "
                "dataset again"
            )
        return footer

    def _group(self, shard: Shard, group: int) -> list[bytes]:
        key = shard.path, group
        with self._lock:
            if key in self._groups:
                self._groups.move_to_end(key)
                return self._groups[key]
        roles, footer = self._layout.dataset.manifest.roles, self._footer(shard)

        def act(file: IO[bytes]) -> pa.Table:
            return read_group(file, footer, group, list(roles.example), shard.record.bytes)

        examples = [example or b"" for example in example_bytes(self._tried(shard, act), roles)]
        with self._lock:
            if key not in self._groups:
                self._groups[key] = examples
                self._size += sum(map(len, examples))
            while self._size > MEMORY and len(self._groups) > 1:
                self._size -= sum(map(len, self._groups.popitem(last=False)[1]))
        return examples

    def _tried(self, shard: Shard, act: Callable[[IO[bytes]], Any]) -> Any:
        def once() -> Any:
            with self._store.open(shard.path) as file:
                return act(file)

        return self._store.persistently(shard.path, once)
