"""Which shard has which row of a base, and where in it the row's example lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.dataset import OpenDataset
from shiftdata.errors import IntegrityError
from shiftdata.format.paths import data_files, in_order, metadata_file
from shiftdata.format.records import FileRecord
from shiftdata.loading.byte_ranges.ranges import Piece
from shiftdata.metadata.columns import read_columns
from shiftdata.places.store import Store

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Shard:
    """A data file: the position in the base of its first row, and its record in the manifest."""

    path: str
    split: str
    first: int
    rows: int
    record: FileRecord


def wrong_hash(store: Store, shard: Shard, row: int) -> IntegrityError:
    """The error for an example that is not the one in the metadata."""
    return IntegrityError(
        f"{store.address}/{shard.path}: row {row} does not have the sha256 that its metadata says: fetch or "
        "build the file again; `shiftdata verify` lists everything that is wrong"
    )


@dataclass(frozen=True)
class Layout:
    """The rows of a base over its shards: splits one after another in their order.

    Within a split rows are in the order of its files, as in `shiftdata.Metadata`. Pointers are read when a
    row of their split is first asked for, once for an opened dataset.
    """

    dataset: OpenDataset
    base: str
    shards: tuple[Shard, ...]
    firsts: dict[str, int]

    @classmethod
    def of(cls, dataset: OpenDataset, base: str) -> Layout:
        manifest = dataset.manifest
        splits = manifest.base(base).splits
        manifest.require_pixels(dataset.address)
        shards: list[Shard] = []
        firsts, total = {}, 0
        for split in in_order(splits):
            firsts[split] = total
            for path in data_files(manifest.files, base, split):
                record = manifest.files[path]
                shards.append(Shard(path, split, total, record.rows or 0, record))
                total += shards[-1].rows
            if total - firsts[split] != splits[split].rows:
                raise IntegrityError(
                    f"{dataset.address}: the manifest lists {total - firsts[split]} rows in the files of "
                    f"{base}/{split} and {splits[split].rows} in the split: fetch or build it again"
                )
        return cls(dataset, base, tuple(shards), firsts)

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def by_shard(self, positions: Indices) -> list[tuple[Shard, Indices]]:
        """Sorted positions, cut by shard."""
        cuts = np.searchsorted(positions, [shard.first + shard.rows for shard in self.shards])
        parts = np.split(positions, cuts)
        return [(shard, part) for shard, part in zip(self.shards, parts, strict=False) if len(part)]

    def pieces(self, shard: Shard, positions: Indices, *, hashes: bool) -> list[Piece]:
        """Where the images at some positions of a shard lie; with their hashes if asked."""
        start, length = self.bounds(shard, positions)
        sha256 = self.hashes(shard, positions).tolist() if hashes else [None] * len(start)
        rows = (positions - shard.first).tolist()
        return list(map(Piece, positions.tolist(), rows, start, length, sha256))

    def bounds(self, shard: Shard, positions: Indices) -> tuple[list[int], list[int]]:
        """Where the images at some positions of a shard begin, and how long they are."""
        at, end = positions - self.firsts[shard.split], shard.record.bytes
        start, length = (self._column(shard.split, name)[at] for name in ("offset", "length"))
        wrong = np.flatnonzero((start < 0) | (length < 0) | (start > end) | (length > end - start))
        if len(wrong):
            first, size = int(start[wrong[0]]), int(length[wrong[0]])
            raise IntegrityError(
                f"{self.dataset.address}: metadata puts row {positions[wrong[0]] - shard.first} of "
                f"{shard.path} at the bytes {first} to {first + size} of {end}: fetch or build it again"
            )
        return start.tolist(), length.tolist()

    def lengths(self, positions: Indices) -> Indices:
        """The bytes of the images at some positions."""
        lengths = np.empty(len(positions), np.int64)
        split_of = np.searchsorted(list(self.firsts.values()), positions, side="right") - 1
        for number, (split, first) in enumerate(self.firsts.items()):
            if (mine := split_of == number).any():
                lengths[mine] = self._column(split, "length")[positions[mine] - first]
        return lengths

    def hashes(self, shard: Shard, positions: Indices) -> NDArray[np.void]:
        """The sha256 of the examples at some positions of a shard, 32 bytes each."""
        hashes: NDArray[np.void] = self._column(shard.split, "sha256")[positions - self.firsts[shard.split]]
        return hashes

    def _column(self, split: str, name: str) -> NDArray[Any]:
        """A column of a split's pointers; hashes are read apart, since they are most of the bytes."""
        names = ("sha256",) if name == "sha256" else ("offset", "length")
        read = self.dataset.keep((self.base, split, names), lambda: self._read(split, names))
        return read[names.index(name)]

    def _read(self, split: str, names: tuple[str, ...]) -> list[NDArray[Any]]:
        path = metadata_file(self.base, split)
        table = read_columns(self.dataset, path, names)
        self.dataset.check_unchanged()  # else these pointers may be of another version
        expected = self.dataset.manifest.base(self.base).splits[split].rows
        if len(table) != expected or any(table[one].null_count for one in names):
            raise IntegrityError(
                f"{self.dataset.address}: {path} has {len(table)} rows of {expected}, or rows without a "
                "pointer: fetch or build the dataset again"
            )
        if names == ("sha256",):
            try:
                hashes = table["sha256"].cast(pa.binary(32)).combine_chunks()
            except pa.ArrowInvalid as error:
                raise IntegrityError(
                    f"{self.dataset.address}: {path} has a sha256 not of 32 bytes"
                ) from error
            return [np.ndarray(len(hashes), "V32", hashes.buffers()[1])]  # no object each: there may be many
        return [table[one].to_numpy() for one in names]
