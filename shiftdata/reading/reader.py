"""Read examples by their rows, wherever the dataset is."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata import places
from shiftdata.errors import InputError, IntegrityError, StorageError
from shiftdata.manifest import Manifest
from shiftdata.places import persistently
from shiftdata.reading.cache import DiskCache
from shiftdata.reading.pointers import Pointers
from shiftdata.reading.ranges import Request, Wanted, merged
from shiftdata.reading.stores import Store, at_once, store_of
from shiftdata.schema import example_bytes

__all__ = ["ExampleReader", "ReadStats"]

GROUPS_HELD = 8  # row groups of texts, tables and strange shards that stay in memory


@dataclass
class ReadStats:
    """What was asked for, and what it took; metadata and manifest are not counted."""

    examples: int = 0
    asked: int = 0
    fetched: int = 0
    requests: int = 0
    cached: int = 0
    row_groups: int = 0


class ExampleReader:
    """The encoded examples of a base by row: images, texts in UTF-8, features as JSON.

    Rows count as in `shiftdata.Metadata` of the same dataset and base: the splits one after another. It may
    be used from many threads, and sent to other processes, where it opens everything anew.

    Args:
        source: A name, folder or URL.
        base: The base.
        verify: Compare each example with its hash in the metadata; one that differs is fetched once more.
        cache: A folder for what was fetched from afar.
        cache_limit: The bytes that the folder may hold.
        tolerance: Bytes between two examples that are rather fetched with them than by one more request.
        connections: Requests at a time.

    """

    def __init__(
        self,
        source: str | Path,
        base: str,
        *,
        verify: bool = False,
        cache: str | Path | None = None,
        cache_limit: int = 10 * 2**30,
        tolerance: int = 4 * 2**10,
        connections: int = 8,
    ) -> None:
        if tolerance < 0 or connections < 1 or cache_limit < 1:
            raise InputError(
                f"tolerance={tolerance}, connections={connections}, cache_limit={cache_limit}: give at least "
                "0 bytes, 1 connection and 1 byte"
            )
        self._given: dict[str, Any] = {
            "source": str(source), "base": base, "verify": verify, "cache": cache,
            "cache_limit": cache_limit, "tolerance": tolerance, "connections": connections,
        }  # fmt: skip
        self._place = places.find(source)
        self._manifest: Manifest = self._place.manifest()
        self._manifest.base(base)
        self._verify = verify
        self._tolerance = tolerance
        self._connections = connections
        self._cache = DiskCache(Path(cache), cache_limit) if cache is not None else None
        self._pointers = Pointers(self._place, self._manifest, base)
        self._store: Store = store_of(self._place)
        self._known: dict[str, bool] = {}
        self._held: OrderedDict[tuple[str, int], list[bytes]] = OrderedDict()
        self._lock = threading.Lock()
        self.stats = ReadStats()

    def __len__(self) -> int:
        return len(self._pointers)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (self._given,)

    def __enter__(self) -> ExampleReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back open files; a later read opens them again."""
        self._store.close()

    def read(self, rows: Sequence[int]) -> list[bytes]:
        """The examples of some rows, in the order asked; a row may be asked for twice."""
        different = sorted({int(row) for row in rows})
        if different and not 0 <= different[0] <= different[-1] < len(self):
            raise InputError(f"rows are 0 to {len(self) - 1:,}, got {different[0]:,} to {different[-1]:,}")
        found = self._from_cache(different)
        missing = [self._wanted(row) for row in different if row not in found]
        by_range = [one for one in missing if self._by_range(one.shard)]
        # On a disk a gap costs more to read than another call.
        requests = list(merged(by_range, self._tolerance if self._place.folder is None else 0))
        for part in at_once(self._fetch, requests, self._connections):
            found.update(part)
        for one in missing:
            if one.row not in found:
                found[one.row] = self._from_group(one)
        with self._lock:
            self.stats.examples += len(rows)
            self.stats.asked += sum(len(found[row]) for row in different)
        return [found[int(row)] for row in rows]

    def _wanted(self, row: int) -> Wanted:
        return Wanted(row, self._pointers.shard(row), *self._pointers.span(row))

    def _from_cache(self, rows: Sequence[int]) -> dict[int, bytes]:
        if self._cache is None or self._manifest.roles.modality != "image":
            return {}
        found = {row: data for row in rows if (data := self._cache.get(self._name(row))) is not None}
        with self._lock:
            self.stats.cached += len(found)
        return found

    def _name(self, row: int) -> str:
        """What identifies an image: its shard's hash and its place there."""
        shard = self._pointers.shard(row)
        return f"{self._manifest.files[shard].sha256} {self._pointers.span(row)[0]}"

    def _by_range(self, shard: str) -> bool:
        """Whether a shard's images can be read by range: it is the one that the manifest knows."""
        if self._manifest.roles.modality != "image":
            return False
        with self._lock:
            known = self._known.get(shard)
        if known is None:
            try:
                size = self._store.size(shard)
            except Exception as error:  # each backend has its own kinds
                raise self._unreachable(shard, [], error) from error
            expected = self._manifest.files[shard].bytes
            known = size in (None, expected)
            if not known:
                warnings.warn(
                    f"{self._place.source}: {shard} has {size:,} bytes, the manifest says {expected:,}: "
                    "somebody wrote it again, so whole row groups are read and each example is compared with "
                    "its hash",
                    stacklevel=4,
                )
            with self._lock:
                self._known[shard] = known
        return known

    def _fetch(self, request: Request) -> dict[int, bytes]:
        """The examples of one request; with `verify`, one that differs from its hash is fetched again."""
        data = self._bytes_of(request)
        found = {
            one.row: data[one.offset - request.start : one.end - request.start] for one in request.examples
        }
        for one in request.examples if self._verify else ():
            if not self._is_right(one.row, found[one.row]):
                found[one.row] = self._bytes_of(Request(one.shard, one.offset, one.end, (one,)))
                self._check(one, found[one.row])
        if self._cache is not None:
            for row, example in found.items():
                self._cache.put(self._name(row), example)
        return found

    def _bytes_of(self, request: Request) -> bytes:
        try:
            data = self._store.bytes_of(request.shard, request.start, request.end)
        except Exception as error:  # each backend has its own kinds
            rows = [one.row for one in request.examples]
            raise self._unreachable(request.shard, rows, error) from error
        with self._lock:
            self.stats.fetched += len(data)
            self.stats.requests += 1
        return data

    def _from_group(self, one: Wanted) -> bytes:
        """An example out of its row group, which is kept for its neighbours."""
        in_shard = self._pointers.in_shard(one.row)
        starts = self._group_starts(one.shard)
        group = int(np.searchsorted(starts, in_shard, side="right")) - 1
        if in_shard >= starts[-1] or group < 0:
            raise IntegrityError(f"{one.shard} has {starts[-1]:,} rows, row {in_shard:,} was asked for")
        data = self._group(one.shard, group)[in_shard - int(starts[group])]
        if self._verify or not self._known.get(one.shard, True):
            self._check(one, data)
        return data

    def _group(self, shard: str, group: int) -> list[bytes]:
        with self._lock:
            held = self._held.get((shard, group))
            if held is not None:
                self._held.move_to_end((shard, group))
                return held
        roles = self._manifest.roles
        try:
            table = persistently(
                lambda: pq.ParquetFile(self._store.opened(shard)).read_row_group(
                    group, columns=[*roles.example]
                )
            )
        except (pa.ArrowInvalid, OSError) as error:
            raise self._unreachable(shard, [], error) from error
        examples = example_bytes(table, roles)
        with self._lock:
            self.stats.row_groups += 1
            self._held[shard, group] = examples
            while len(self._held) > GROUPS_HELD:
                self._held.popitem(last=False)
        return examples

    def _group_starts(self, shard: str) -> Any:
        """The first row of each row group of a shard, and the number of its rows."""
        if shard not in self._layouts:
            try:
                told = persistently(lambda: pq.ParquetFile(self._store.opened(shard)).metadata)
            except (pa.ArrowInvalid, OSError) as error:
                raise self._unreachable(shard, [], error) from error
            sizes = [told.row_group(number).num_rows for number in range(told.num_row_groups)]
            self._layouts[shard] = np.concatenate([[0], np.cumsum(sizes)])
        return self._layouts[shard]

    @cached_property
    def _layouts(self) -> dict[str, Any]:
        return {}

    def _is_right(self, row: int, data: bytes) -> bool:
        return hashlib.sha256(data).digest() == self._pointers.sha256(row)

    def _check(self, one: Wanted, data: bytes) -> None:
        if not self._is_right(one.row, data):
            raise IntegrityError(
                f"{self._place.source}: row {one.row:,} ({one.shard}, bytes {one.offset:,} to {one.end:,}) "
                f"has sha256 {hashlib.sha256(data).hexdigest()}, the metadata say "
                f"{self._pointers.sha256(one.row).hex()}: fetch or build the dataset again; "
                f"`shiftdata verify {self._place.source}` lists all bad rows"
            )

    def _unreachable(self, shard: str, rows: Sequence[int], error: Exception) -> StorageError:
        more = f" and {len(rows) - 1:,} others" if len(rows) > 1 else ""
        named = f", row {rows[0]:,}{more}" if rows else ""
        said = f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0]
        return StorageError(
            f"cannot read {shard}{named} of {self._place.source} ({said}): look at the network and your "
            "access, or download the dataset and read it from a folder"
        )


def _made_again(given: Mapping[str, Any]) -> ExampleReader:
    return ExampleReader(**given)
