"""The shard of each row of a base, the bytes of its example there, and the requests that join them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import data_files, in_order, row_files
from shiftdata.data.format.records import FileRecord
from shiftdata.data.format.schema import features_as_bytes
from shiftdata.data.metadata.columns import read_columns
from shiftdata.data.places.store import Store
from shiftdata.errors import IntegrityError
from shiftdata.untrusted.texts import read_json

#: Of all bytes that are asked for, at most this part may be fetched in vain between them. Where each range is
#: a request that waits for a network, bytes that come in less time than another round trip are worth more: a
#: gap of `WIDEST` bytes takes 5 ms at 100 Mbit/s. They stay few, since somebody may pay for them.
WASTE, WASTE_FAR = 1 / 50, 1 / 12
WIDEST = 64 * 2**10
#: The widest gap where one request has several ranges: then a range costs no round trip, but such a head.
NARROW = 128
#: The fewest and the most bytes of a request of several ranges: below, its own cost shows; above, it would
#: keep other connections waiting.
SHORTEST, LONGEST = 2**19, 4 * 2**20


class Piece(NamedTuple):
    """The bytes of one example in a shard; `position` is its row in the base, `row` that in the shard."""

    position: int
    row: int
    start: int
    length: int
    sha256: bytes | None = None

    @property
    def end(self) -> int:
        return self.start + self.length


class Span(NamedTuple):
    """A byte range and the pieces in it."""

    pieces: Sequence[Piece]
    start: int
    end: int

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> Span:
        return cls(pieces, pieces[0].start, max(piece.end for piece in pieces))

    @property
    def size(self) -> int:
        return self.end - self.start


def spans(
    pieces: Sequence[Piece], *, neighbours: bool = False, waste: float = WASTE, widest: int = WIDEST
) -> Iterator[Span]:
    """Join the pieces of a shard over gaps of at most `widest` bytes, the narrowest gaps first.

    `neighbours`: rows that follow each other are joined whatever the waste. In a tar a header and padding lie
    between them, which are more than a small example.

    >>> near = [Piece(0, 0, 0, 500), Piece(1, 1, 510, 500), Piece(2, 2, 9000, 500)]
    >>> [(span.start, span.end) for span in spans(near)]
    [(0, 1010), (9000, 9500)]
    """
    ordered = sorted(pieces, key=lambda piece: (piece.start, piece.length))
    if not ordered:
        return
    starts = np.array([piece.start for piece in ordered])
    ends = np.maximum.accumulate([piece.end for piece in ordered])
    gaps = np.maximum(starts[1:] - ends[:-1], 0)
    order = np.argsort(gaps, kind="stable")
    allowed = sum(piece.length for piece in ordered) * waste
    bridged = np.zeros(len(gaps), dtype=bool)
    bridged[order] = (np.cumsum(gaps[order]) <= allowed) & (gaps[order] <= widest)
    if neighbours:
        bridged |= np.diff([piece.row for piece in ordered]) == 1
    bridged &= gaps <= WIDEST
    first = 0
    for number, joined in enumerate(bridged.tolist(), start=1):
        if not joined or ordered[number].end - ordered[first].start > LONGEST:
            yield Span.of(ordered[first:number])
            first = number
    yield Span.of(ordered[first:])


def together(spans: Iterable[Span], count: int, size: int) -> Iterator[list[Span]]:
    """Join the spans of a shard to requests of at most `count` spans, of `size` bytes if it is not one."""
    request, length = list[Span](), 0
    for span in spans:
        if request and (len(request) == count or length + span.size > size):
            yield request
            request, length = [], 0
        request.append(span)
        length += span.size
    if request:
        yield request


@dataclass(frozen=True)
class Shard:
    """A data file: its first row, counted over the files before it, and its record in the manifest."""

    path: str
    split: str
    first: int
    rows: int
    record: FileRecord


def shards_of(files: Mapping[str, FileRecord], base: str, splits: Iterable[str]) -> list[Shard]:
    """Return the data files of some splits, one split after the other."""
    shards, first = list[Shard](), 0
    for split in splits:
        for path in data_files(files, base, split):
            shards.append(Shard(path, split, first, files[path].rows or 0, files[path]))
            first += shards[-1].rows
    return shards


def wrong_hash(store: Store, shard: Shard, row: int) -> IntegrityError:
    """Make the error for an example that is not the one in the metadata."""
    return IntegrityError(
        f"{store.address}/{shard.path}: row {row} does not have the sha256 that its metadata says: fetch or "
        "build the file again; `shiftdata verify` lists everything that is wrong"
    )


@dataclass(frozen=True)
class Layout:
    """The rows of a base over its shards: splits one after another in their order.

    Within a split rows are in the order of its files, as in `shiftdata.Metadata`. Pointers are read when a
    row of their split is first asked for, once for an opened dataset: from the metadata of Parquet files, or
    from the index of each tar. Of tars, the bytes of some `members` of a sample are read, with the headers
    between them: the one with the example alone, or of `whole` samples all.
    """

    dataset: OpenDataset
    base: str
    shards: tuple[Shard, ...]
    firsts: dict[str, int]
    members: tuple[str, ...] = ()
    whole: bool = False

    @classmethod
    def of(cls, dataset: OpenDataset, base: str, *, whole: bool = False) -> Layout:
        manifest = dataset.manifest
        splits = manifest.base(base).splits
        manifest.require_pixels(dataset.address)
        shards = shards_of(manifest.files, base, in_order(splits))
        firsts, total = {}, 0
        for split in in_order(splits):
            rows = sum(shard.rows for shard in shards if shard.split == split)
            if rows != splits[split].rows:
                text = f"the manifest lists {rows} rows in the files of {base}/{split}"
                raise dataset.damaged(f"{text} and {splits[split].rows} in the split")
            firsts[split] = total
            total += rows
        members: tuple[str, ...] = ()
        if manifest.is_webdataset:
            members = tuple(manifest.sample) if whole else (example_member(manifest),)
        return cls(dataset, base, tuple(shards), firsts, members, whole)

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def has_bytes(self) -> bool:
        """True if each example lies at bytes of its own; texts and tables in Parquet files do not."""
        return bool(self.members) or self.dataset.manifest.roles.modality == "image"

    def by_shard(self, positions: IntArray) -> list[tuple[Shard, IntArray]]:
        """Sorted positions, cut by shard."""
        cuts = np.searchsorted(positions, [shard.first + shard.rows for shard in self.shards])
        parts = np.split(positions, cuts)
        return [(shard, part) for shard, part in zip(self.shards, parts, strict=False) if len(part)]

    def pieces(self, shard: Shard, positions: IntArray, *, hashes: bool) -> list[Piece]:
        """Locate the images at some positions of a shard, with their hashes on request."""
        at, end = positions - self.firsts[shard.split], shard.record.bytes
        start, length = (self._column(shard.split, name)[at] for name in ("offset", "length"))
        wrong = np.flatnonzero((start < 0) | (length < 0) | (start > end) | (length > end - start))
        if len(wrong):
            first, size = int(start[wrong[0]]), int(length[wrong[0]])
            row = f"row {positions[wrong[0]] - shard.first} of {shard.path}"
            raise self.dataset.damaged(f"metadata puts {row} at the bytes {first} to {first + size} of {end}")
        sha256 = self.hashes(shard, positions).tolist() if hashes else [None] * len(positions)
        columns = (positions, positions - shard.first, start, length)
        return list(map(Piece, *(column.tolist() for column in columns), sha256))

    def lengths(self, positions: IntArray) -> IntArray:
        """Return the number of bytes of each image at some positions."""
        lengths = np.empty(len(positions), np.int64)
        split_of = np.searchsorted(list(self.firsts.values()), positions, side="right") - 1
        for number, (split, first) in enumerate(self.firsts.items()):
            if (mine := split_of == number).any():
                lengths[mine] = self._column(split, "length")[positions[mine] - first]
        return lengths

    def fits(self, piece: Piece, data: bytes) -> bool:
        """Return True if the bytes have the length of a piece, and the hash if it is known."""
        if len(data) != piece.length or piece.sha256 is None:
            return len(data) == piece.length
        try:
            example = self.example(piece.position, data)
        except IntegrityError:
            return False
        return hashlib.sha256(example).digest() == piece.sha256

    def example(self, position: int, data: bytes) -> bytes:
        """Extract the example from the bytes of a row: of a table, its features from its JSON."""
        if self.whole:
            split = next(name for name, start in reversed(self.firsts.items()) if start <= position)
            start, length = (self._column(split, name) for name in ("example", "example_length"))
            row = position - self.firsts[split]
            data = data[start[row] :][: length[row]]
        if not self.members:
            return data
        roles = self.dataset.manifest.roles
        if roles.modality != "table":
            return data
        try:
            values = read_json(data)
            return features_as_bytes([values[name] for name in roles.example])
        except (ValueError, TypeError, KeyError) as error:
            text = f"the JSON of row {position} of {self.base} does not have the features of a row"
            raise self.dataset.damaged(f"{text} ({error!r:.200})") from error

    def hashes(self, shard: Shard, positions: IntArray) -> NDArray[np.void]:
        """Return the sha256 of the examples at some positions of a shard, 32 bytes each."""
        hashes: NDArray[np.void] = self._column(shard.split, "sha256")[positions - self.firsts[shard.split]]
        return hashes

    def _column(self, split: str, name: str) -> NDArray[Any]:
        """Return a column of a split's pointers. Hashes are read apart: they are most of the bytes."""
        if name == "sha256":
            return self.dataset.keep((self.base, split, name), lambda: self._hashes(split))
        key = (self.base, split, self.members)
        return self.dataset.keep(key, lambda: self._places(split))[name]

    def _hashes(self, split: str) -> NDArray[np.void]:
        table = self._read(split, ["sha256"])
        try:
            hashes = table["sha256"].cast(pa.binary(32)).combine_chunks()
        except pa.ArrowInvalid as error:
            text = f"a file of the rows of {self.base}/{split} has a sha256 not of 32 bytes"
            raise self.dataset.damaged(text) from error
        return np.ndarray(len(hashes), "V32", hashes.buffers()[1])  # no object each: there may be many

    def _places(self, split: str) -> dict[str, NDArray[Any]]:
        """Return start and length of what is read of each row, and of the example in it."""
        if not self.members:
            table = self._read(split, ["offset", "length"])
            return {name: table[name].to_numpy() for name in table.column_names}
        member = example_member(self.dataset.manifest)
        table = self._read(split, [f"{member}_offset", f"{member}_length"], self.members)
        start, end = member_bounds(table, self.members)
        example, length = (table[f"{member}_{name}"].to_numpy() for name in ("offset", "length"))
        return {"offset": start, "length": end - start, "example": example - start, "example_length": length}

    def _read(self, split: str, names: list[str], members: Sequence[str] = ()) -> pa.Table:
        """Columns of the files with a split's rows, missing in none; also where `members` lie, if they do."""
        manifest = self.dataset.manifest
        paths = row_files(manifest.files, self.base, split)
        places = [f"{member}_{name}" for member in members for name in ("offset", "length")]
        wanted = list(dict.fromkeys([*names, *places]))
        table = pa.concat_tables([read_columns(self.dataset, path, wanted) for path in paths])
        self.dataset.check_unchanged()  # else these pointers may be of another version
        expected = manifest.base(self.base).splits[split].rows
        if len(table) != expected or any(table[name].null_count for name in names):
            files = paths[0] if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
            text = f"{files} has {len(table)} rows of {expected}, or rows without a pointer"
            raise self.dataset.damaged(text)
        return table.select(wanted)


def example_member(manifest: Manifest) -> str:
    """Name the member of a tar's samples that has the example: of a table its JSON."""
    return "json" if manifest.roles.modality == "table" else next(iter(manifest.sample))


def member_bounds(index: pa.Table, members: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return the start of the first of some members of each sample, and the end of the last."""
    starts = [index[f"{member}_offset"] for member in members]
    ends = [pc.add(start, index[f"{member}_length"]) for start, member in zip(starts, members, strict=True)]
    return pc.min_element_wise(*starts).to_numpy(), pc.max_element_wise(*ends).to_numpy()


def sample_names(index: pa.Table) -> pa.Array:
    """Name each sample by its row in an index: the key, of a row's second sample with `+2`.

    No key has a plus sign, and a name with a dot would end there.
    """
    keys = index["key"].cast(pa.large_string())
    if "copy" in index.column_names:
        plus = pa.scalar("+", pa.large_string())
        copies = pc.binary_join_element_wise(keys, index["copy"].cast(pa.large_string()), plus)
        keys = pc.if_else(pc.greater(index["copy"], 1), copies, keys)
    return keys.combine_chunks()
