"""The door: examples by their positions in a base."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from shiftdata.errors import InputError
from shiftdata.loading.byte_ranges.cache import Cache
from shiftdata.loading.byte_ranges.layout import Indices, Layout, Shard
from shiftdata.loading.byte_ranges.ranges import Piece, Span, spans
from shiftdata.loading.byte_ranges.row_groups import RowGroups
from shiftdata.loading.byte_ranges.stats import ReadStats
from shiftdata.loading.byte_ranges.stores import store_of
from shiftdata.loading.byte_ranges.threads import in_threads
from shiftdata.places import search as places

#: What a pickled reader takes along; connections and counts begin anew.
_CARRIED = ("_verify", "_tolerance", "_connections", "_cache", "_layout")


class ExampleReader:
    """Reads the examples of a base of a dataset, wherever it is, and of no row that is not asked for.

    Many threads may use one reader. It can be pickled, and used after a fork: each process has connections of
    its own, and its own `stats`.

    Args:
        source: a dataset by path, name, repo id or URL, as `shiftdata.Metadata.of` takes it.
        base: `mini`, `content`, ...
        verify: compare each example with its sha256.
        cache: a folder on this machine in which images from elsewhere are kept; processes may share it.
        cache_limit: the most bytes that are kept there.
        tolerance: images that lie nearer than this are fetched by one request, as long as little is
            fetched in vain.
        connections: how many requests may be under way at once.
        index: a folder on this machine with the manifest and the metadata of the base, if they were fetched
            already; they are believed, and `source` gives examples alone.

    """

    def __init__(
        self,
        source: str | Path,
        base: str,
        *,
        verify: bool = False,
        cache: Path | None = None,
        cache_limit: int = 10 * 2**30,
        tolerance: int = 64 * 2**10,
        connections: int = 8,
        index: Path | None = None,
    ) -> None:
        if tolerance < 0 or cache_limit < 0 or connections < 1:
            raise InputError(
                f"tolerance={tolerance}, cache_limit={cache_limit}, connections={connections}: "
                "give at least 0, 0 and 1"
            )
        place = places.find(source)
        self._verify = verify
        self._tolerance = tolerance
        # Threads gain nothing where no answer is waited for.
        self._connections = connections if place.folder is None else 1
        self._cache = Cache(cache, cache_limit) if cache is not None and place.folder is None else None
        self._layout = Layout.of(place, base, index)
        self._begin()

    def __len__(self) -> int:
        return len(self._layout)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in _CARRIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def read(self, rows: Sequence[int]) -> list[bytes]:
        """The examples at some positions, in the order asked; a position may be asked twice.

        Positions count the rows of the base as `shiftdata.Metadata` does: train, then validation, then test,
        each in the order of its files. An example is an encoded image, a text as UTF-8, or the features of
        a table's row as JSON (`shiftdata.format.schema.features_as_bytes`).
        """
        asked = np.asarray(rows)
        if asked.size and (asked.ndim != 1 or asked.dtype.kind not in "iu"):
            raise InputError(f"rows are whole numbers in one sequence, not {asked.dtype} in {asked.ndim}")
        if asked.size and not 0 <= asked.min() <= asked.max() < len(self):
            bad = asked[(asked < 0) | (asked >= len(self))][0]
            raise InputError(f"there is no row {bad} in {self._layout.base}: rows are 0 to {len(self) - 1}")
        found = self._read_positions(np.unique(asked.astype(np.int64)))
        given = [found[row] for row in asked.tolist()]
        self._count(asked=sum(map(len, given)))
        return given

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files and connections. Reading again opens them again."""
        self._store.close()

    def _begin(self) -> None:
        self.stats = ReadStats()
        self._store = store_of(self._layout.place)
        self._row_groups = RowGroups(self._layout, self._store)
        self._known: dict[str, bool | None] = {}
        self._lock = threading.Lock()

    def _read_positions(self, positions: Indices) -> dict[int, bytes]:
        """Examples by position: those of all shards together, so that no connection waits for a shard."""
        found: dict[int, bytes] = {}
        parts = self._layout.by_shard(positions)
        if self._layout.manifest.roles.modality != "image":
            for shard, some in parts:
                found |= self._by_row_group(shard, some, verify=self._verify)
            return found
        known = dict(in_threads(self._identity, [shard for shard, _ in parts], self._connections))
        missing: list[tuple[Shard, Sequence[Piece]]] = []
        for shard, some in parts:
            if known[shard.path] is False:
                found |= self._by_row_group(shard, some, verify=True)
                continue
            pieces = self._layout.pieces(shard, some, hashes=self._verify or known[shard.path] is None)
            held = self._cached(shard, pieces)
            found |= held
            missing.append((shard, [piece for piece in pieces if piece.position not in held]))
        return found | self._by_range(missing)

    def _by_range(self, parts: Sequence[tuple[Shard, Sequence[Piece]]]) -> dict[int, bytes]:
        def fetch(job: tuple[Shard, Span]) -> dict[int, bytes]:
            shard, span = job
            data = self._store.fetch(shard, span)
            length = span.end - span.start if remote else sum(map(len, data))
            self._count(fetched=length, requests=1)
            return {piece.position: one for piece, one in zip(span.pieces, data, strict=True)}

        remote = self._layout.place.folder is None
        jobs = [(shard, span) for shard, pieces in parts for span in spans(pieces, self._tolerance)]
        found: dict[int, bytes] = {}
        for images in in_threads(fetch, jobs, self._connections):
            found |= images
        for shard, pieces in parts:
            if self._cache is not None and pieces:
                self._cache.put(shard.sha256, [(piece.start, found[piece.position]) for piece in pieces])
        return found

    def _by_row_group(self, shard: Shard, positions: Indices, *, verify: bool) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        read = self._row_groups.read(shard, positions, verify=verify, connections=self._connections)
        for part, fresh in read:
            found |= dict(part)
            self._count(row_groups=int(fresh))
        return found

    def _cached(self, shard: Shard, pieces: Sequence[Piece]) -> dict[int, bytes]:
        if self._cache is None:
            return {}
        held = self._cache.get(shard.sha256, [piece.start for piece in pieces])
        found = {piece.position: held[piece.start] for piece in pieces if piece.is_in(held)}
        self._count(cache_hits=len(found))
        return found

    def _identity(self, shard: Shard) -> tuple[str, bool | None]:
        """Whether a shard is the manifest's, asked once; None where the place does not say."""
        if shard.path not in self._known:
            known = self._store.is_known(shard)
            with self._lock:
                first = shard.path not in self._known
                self._known[shard.path] = known
            if first and known is False:
                warnings.warn(
                    f"{self._layout.place.source}/{shard.path} is not the file that the manifest knows: "
                    "its row groups are read, and each image is checked; fetch the original to read less",
                    stacklevel=4,
                )
        return shard.path, self._known[shard.path]

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, number in more.items():
                setattr(self.stats, name, getattr(self.stats, name) + number)
