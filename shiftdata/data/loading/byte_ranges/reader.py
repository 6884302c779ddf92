"""Examples by their positions in a base."""

from __future__ import annotations

import copy
import hashlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import BELIEVED, DatasetName, OpenDataset, open_dataset
from shiftdata.data.format.schema import example_bytes
from shiftdata.data.loading.byte_ranges.cache import RangeCache
from shiftdata.data.loading.byte_ranges.layout import (
    LONGEST,
    NARROW,
    SHORTEST,
    WASTE,
    WASTE_FAR,
    WIDEST,
    Layout,
    Piece,
    Shard,
    Span,
    spans,
    together,
    wrong_hash,
)
from shiftdata.data.loading.byte_ranges.pace import FIRST, Pace
from shiftdata.data.places.client import NoRangesError, PoorAnswerError
from shiftdata.data.places.store import Store
from shiftdata.errors import InputError, StorageError
from shiftdata.files import absolute, cache_folder
from shiftdata.logs import logger
from shiftdata.threads import in_threads
from shiftdata.untrusted.parquet import ParquetReader, read_footer

#: The attributes of a pickled reader; counts begin at 0 again.
_CARRIED = ("ahead", "_verify", "_cache", "_layout", "_store")
#: Bytes that may be read ahead, and those of a cache, if nothing else is said.
AHEAD, CACHE = 256 * 2**20, 20e9
#: Ranges of a request as long as a place has not shown whether it gives several: else they follow each other.
UNKNOWN = 8
#: Requests for an image that arrives with another hash, or in an answer that is not right.
TRIES = 3
LOG = logger(__name__)


class Request(NamedTuple):
    """Spans of a shard that are fetched together."""

    shard: Shard
    spans: Sequence[Span]


class ExampleReader:
    """Reads the examples of a base of a dataset, wherever it is, and of no row that is not asked for.

    Many threads may use one reader. It can be pickled, and used after a fork: each process has its own
    connections and `stats`, which count the bytes of examples (`asked`), those that came from the shards by
    byte range (`fetched`), the `requests` for these (several ranges each, where the place gives them), and
    `cache_hits`. Once the dataset's manifest has changed, it refuses.

    Args:
        dataset: an opened dataset, or its name, folder or URL.
        base: `mini`, `content`, ...
        verify: compare each example with its sha256.
        cache: a folder on this machine for the bytes that come from elsewhere, or True for `ranges` in that
            of the user's cache. Each example is compared with its sha256; processes may share it.
        cache_limit: the most bytes of that folder: what was used longest ago is removed. None: no limit.
        ahead: the most bytes that a `Loader`, which knows the order of an epoch, fetches ahead of their turn
            and keeps in memory, where the examples are elsewhere (`windows.py`).
        source: the place of the examples, if not that of the manifest.
        whole: of tars, give each sample as it lies, from its first member to the end of its last.

    """

    def __init__(
        self,
        dataset: DatasetName,
        base: str,
        *,
        verify: bool = False,
        cache: str | Path | bool = False,
        cache_limit: float | None = CACHE,
        ahead: int = AHEAD,
        source: Store | None = None,
        whole: bool = False,
    ) -> None:
        if ahead < 0:
            raise InputError(f"ahead must be at least 0, got {ahead}")
        if cache_limit is not None and cache_limit <= 0:
            raise InputError(f"cache_limit is a number of bytes, or None for no limit; got {cache_limit}")
        opened = open_dataset(dataset)
        opened.check_unchanged()
        near = opened.store.folder is not None
        # Handles of its own: closing it must not close files that another thread reads.
        self._store = source or (copy.copy(opened.store) if near else opened.store)
        self._verify = verify
        self._cache: RangeCache | None = None
        if cache and self._store.folder is None:
            folder = cache_folder("ranges") if cache is True else absolute(cache)
            self._cache = RangeCache(folder, None if cache_limit is None else int(cache_limit))
        self._layout = Layout.of(opened, base, whole=whole)
        #: 0 where reading ahead gains nothing: on this machine, and of row groups, which are kept in memory.
        self.ahead = ahead if self._store.folder is None and self._layout.has_bytes else 0
        self._begin()

    def __len__(self) -> int:
        return len(self._layout)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in _CARRIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def read(self, rows: Sequence[int]) -> list[bytes]:
        """Read the examples at some positions, in this order; a position may come twice.

        Positions count the rows of the base as `shiftdata.Metadata` does: train, then validation, then test,
        each in the order of its files. An example is an encoded image, a text as UTF-8, or the features of
        a table's row as JSON (`shiftdata.data.format.schema.features_as_bytes`).
        """
        asked = np.asarray(rows)
        if asked.size and (asked.ndim != 1 or asked.dtype.kind not in "iu"):
            raise InputError(f"rows are whole numbers in one sequence, not {asked.dtype} in {asked.ndim}")
        bad = asked[(asked < 0) | (asked >= len(self))]
        if bad.size:
            raise InputError(
                f"there is no row {bad[0]} in {self._layout.base}: rows are 0 to {len(self) - 1}"
            )
        examples: dict[int, bytes] = {}
        for part in self.parts(np.unique(asked.astype(np.int64))):
            examples |= part
        return self.chosen(asked.tolist(), examples)

    def chosen(self, rows: Sequence[int], examples: Mapping[int, bytes]) -> list[bytes]:
        """Return some of the examples that were read, counted as asked for."""
        given = [examples[row] for row in rows]
        self._count(asked=sum(map(len, given)))
        return given

    def parts(self, positions: IntArray) -> Generator[dict[int, bytes]]:
        """Yield the examples at some sorted positions as they come, of all shards together."""
        self.check_unchanged()
        yield from self._parts(positions)
        self.check_unchanged()  # again: what was opened just now may be of another version

    def lengths(self, positions: IntArray) -> IntArray:
        """Return the number of bytes of each image at some positions."""
        return self._layout.lengths(positions)

    @property
    def dataset(self) -> OpenDataset:
        return self._layout.dataset

    @property
    def base(self) -> str:
        return self._layout.base

    def check_unchanged(self, *, believe: float = BELIEVED) -> None:
        """Raise `ChangedError` if the dataset is not the one that was opened any more."""
        self.dataset.check_unchanged(believe=believe)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close files and connections. Reading again opens them again."""
        self._store.close()

    def _begin(self) -> None:
        self.stats = Counter[str]()
        self._row_groups = RowGroups(self._layout, self._store)
        self._known: dict[str, bool] = {}
        self.pace = Pace()
        table = self.dataset.manifest.roles.modality == "table"
        #: False for the features among a table's JSON: all else is handed out as it lies in the shard.
        self._as_stored = self._layout.whole or not self._layout.members or not table
        self._lock = threading.Lock()

    @property
    def _connections(self) -> int:
        """Threads gain nothing where no answer is waited for."""
        return FIRST if self._store.folder is None else 1

    @property
    def gives_several(self) -> bool | None:
        """True if the place gives several ranges by one request; None as long as that is not known."""
        at_once = self._store.at_once
        return None if at_once is None else at_once > 1

    def _parts(self, positions: IntArray) -> Iterator[dict[int, bytes]]:
        parts = self._layout.by_shard(positions)
        if not self._layout.has_bytes:
            for shard, rows in parts:
                verify = self._verify or not self.dataset.has_version
                yield from self._row_groups.read(shard, rows, verify, self._connections)
            return
        located = self._located(parts)
        if self._store.folder is not None:
            yield from (self._examples(self._near(shard, pieces)) for shard, pieces in located)
            return
        requests = self._requests(located)
        with closing(in_threads(self.fetch, requests, self.pace.requests)) as fetched:
            yield from fetched

    def _located(self, parts: Sequence[tuple[Shard, IntArray]]) -> list[tuple[Shard, list[Piece]]]:
        """Locate some rows; those of a shard that may not be the manifest's with their hashes."""
        shards = [shard for shard, _ in parts]
        original = dict(in_threads(self._is_original, shards, self._connections))
        always = self._verify or self._cache is not None
        return [
            (shard, self._layout.pieces(shard, rows, hashes=always or not original[shard.path]))
            for shard, rows in parts
        ]

    def requests(self, positions: IntArray) -> list[Request]:
        """Plan the requests for the examples at some sorted positions, which lie elsewhere."""
        self.check_unchanged()
        return self._requests(self._located(self._layout.by_shard(positions)))

    def _requests(self, located: Sequence[tuple[Shard, Sequence[Piece]]]) -> list[Request]:
        count = UNKNOWN if self._store.at_once is None else self._store.at_once
        planned = [(shard, self._spans(pieces)) for shard, pieces in located]
        size = sum(span.size for _, of_shard in planned for span in of_shard)
        # Each connection gets its share.
        most = min(max(size // self.pace.requests, SHORTEST), LONGEST)
        requests = [
            Request(shard, request)
            for shard, of_shard in planned
            for request in together(of_shard, count, most)
        ]
        rows = sum(len(pieces) for _, pieces in located)
        place = self._store.address
        LOG.debug("%d examples by %d requests of %d bytes from %s", rows, len(requests), size, place)
        return requests

    def _spans(self, pieces: Sequence[Piece]) -> list[Span]:
        """Join pieces over the gaps that cost less than another range of this place."""
        tars, several = bool(self._layout.members), self.gives_several
        waste = WASTE_FAR if several is False and self.pace.is_far else WASTE
        return list(spans(pieces, neighbours=tars, waste=waste, widest=NARROW if several else WIDEST))

    def _near(self, shard: Shard, pieces: Sequence[Piece]) -> dict[int, bytes]:
        data = self._store.ranges(shard.path, [(piece.start, piece.length) for piece in pieces])
        if wrong := self._wrong(pieces, data):
            raise wrong_hash(self._store, shard, wrong[0])
        self._count(fetched=sum(map(len, data)), requests=len(data))
        return {piece.position: image for piece, image in zip(pieces, data, strict=True)}

    def fetch(self, request: Request, *, is_full: bool = False) -> dict[int, bytes]:
        """Return the examples of a request, by position: from the cache, or else from the place.

        `is_full` says that more requests wait for a thread.
        """
        shard, missing = request
        examples: dict[int, bytes] = {}
        if self._cache is not None:
            pieces = [piece for span in missing for piece in span.pieces]
            examples = self._cached(self._cache, shard, pieces)
            missing = self._spans([piece for piece in pieces if piece.position not in examples])
        if missing:
            began = time.perf_counter()
            examples |= self._fetched(shard, missing)
            size = sum(span.size for span in missing)
            self._count(fetched=size, requests=1)
            self.pace.note(time.perf_counter() - began, size, is_full=is_full)
        return self._examples(examples)

    def _examples(self, stored: dict[int, bytes]) -> dict[int, bytes]:
        if self._as_stored:
            return stored
        return {row: self._layout.example(row, data) for row, data in stored.items()}

    def _fetched(self, shard: Shard, missing: Sequence[Span]) -> dict[int, bytes]:
        """Fetch the images of some spans, again where one has a wrong hash or the answer was poor.

        A server that has given ranges may fail to do so once.
        """
        examples: dict[int, bytes] = {}
        for left in reversed(range(TRIES)):
            try:
                came = self._store.ranges(shard.path, [(span.start, span.size) for span in missing])
            except StorageError as error:
                passing = PoorAnswerError if not self.stats["requests"] else (PoorAnswerError, NoRangesError)
                if left and isinstance(error, passing):
                    LOG.info("asking again: %s", error)
                    continue
                rows = " to ".join(map(str, sorted({missing[0].pieces[0].row, missing[-1].pieces[-1].row})))
                raise StorageError(f"{error} (row {rows})") from error
            again, wrong = list[Span](), list[int]()
            for span, data in zip(missing, came, strict=True):
                images = [data[piece.start - span.start : piece.end - span.start] for piece in span.pieces]
                if bad := self._wrong(span.pieces, images):
                    again.append(span)
                    wrong += bad
                    continue
                if self._cache is not None:
                    self._cache.write(shard.record.sha256, span.start, data)
                pairs = zip(span.pieces, images, strict=True)
                examples |= {piece.position: image for piece, image in pairs}
            if not again:
                return examples
            missing = again
            LOG.info("asking again: %s", wrong_hash(self._store, shard, wrong[0]))
        raise wrong_hash(self._store, shard, wrong[0])

    def _wrong(self, pieces: Sequence[Piece], images: Sequence[bytes]) -> list[int]:
        """List the rows whose images do not have the length, or the hash if it is known, of their pieces."""
        pairs = zip(pieces, images, strict=True)
        return [piece.row for piece, image in pairs if not self._layout.fits(piece, image)]

    def _cached(self, cache: RangeCache, shard: Shard, pieces: Sequence[Piece]) -> dict[int, bytes]:
        images: dict[int, bytes] = {}
        for piece in pieces:
            data = cache.read(shard.record.sha256, piece.start, piece.length)
            if data is not None and self._layout.fits(piece, data):
                images[piece.position] = data
        self._count(cache_hits=len(images))
        return images

    def _is_original(self, shard: Shard) -> tuple[str, bool]:
        """Refuse a shard that is not the manifest's, asked once; False where the place does not say."""
        if shard.path not in self._known:
            began = time.perf_counter()
            info = self._store.info(shard.path)
            self.pace.asked(time.perf_counter() - began)
            self.check_unchanged(believe=0)  # after the look at the shard: it is of this manifest, or gone
            if info.size not in (None, shard.record.bytes) or info.sha256 not in (None, shard.record.sha256):
                raise self.dataset.damaged(f"{shard.path} is not the file that the manifest lists")
            self._known[shard.path] = info.size is not None and self.dataset.has_version
        return shard.path, self._known[shard.path]

    def _count(self, **more: int) -> None:
        with self._lock:
            self.stats.update(more)


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
        key, dataset = ("footer", self._store.address, shard.path), self._layout.dataset
        footer = dataset.keep(key, lambda: self._tried(shard, partial(read_footer, name=shard.path)))
        if footer.num_rows != shard.rows:
            text = f"{shard.path} has {footer.num_rows} rows, the manifest says {shard.rows}"
            raise dataset.damaged(text)
        return footer

    def _group(self, shard: Shard, group: int) -> list[bytes]:
        key = shard.path, group
        with self._lock:
            if key in self._groups:
                self._groups.move_to_end(key)
                return self._groups[key]
        roles, footer = self._layout.dataset.manifest.roles, self._footer(shard)

        def act(file: IO[bytes]) -> pa.Table:
            reader = ParquetReader(file, shard.path, footer=footer, far=self._store.is_far)
            return reader.read(list(roles.example), [group])

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
