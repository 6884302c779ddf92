"""The shard of each row of a base, and the bytes of the row's example in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.paths import data_files, in_order, row_files
from shiftdata.data.format.records import FileRecord
from shiftdata.data.format.schema import features_as_bytes
from shiftdata.data.format.typed import read_json
from shiftdata.data.loading.byte_ranges.ranges import Piece
from shiftdata.data.metadata.columns import read_columns
from shiftdata.data.places.store import Store
from shiftdata.errors import IntegrityError

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
    from the index of each tar. Of tars, `member` is the one with the example, whose bytes are read.
    """

    dataset: OpenDataset
    base: str
    shards: tuple[Shard, ...]
    firsts: dict[str, int]
    member: str = ""

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
        member = ""
        if manifest.is_webdataset:
            member = "json" if manifest.roles.modality == "table" else next(iter(manifest.sample))
        return cls(dataset, base, tuple(shards), firsts, member)

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def has_bytes(self) -> bool:
        """True if each example lies at bytes of its own; texts and tables in Parquet files do not."""
        return bool(self.member) or self.dataset.manifest.roles.modality == "image"

    def by_shard(self, positions: Indices) -> list[tuple[Shard, Indices]]:
        """Sorted positions, cut by shard."""
        cuts = np.searchsorted(positions, [shard.first + shard.rows for shard in self.shards])
        parts = np.split(positions, cuts)
        return [(shard, part) for shard, part in zip(self.shards, parts, strict=False) if len(part)]

    def pieces(self, shard: Shard, positions: Indices, *, hashes: bool) -> list[Piece]:
        """Locate the images at some positions of a shard, with their hashes on request."""
        start, length = self.bounds(shard, positions)
        sha256 = self.hashes(shard, positions).tolist() if hashes else [None] * len(start)
        rows = (positions - shard.first).tolist()
        return list(map(Piece, positions.tolist(), rows, start, length, sha256))

    def bounds(self, shard: Shard, positions: Indices) -> tuple[list[int], list[int]]:
        """Return the start and the length of the images at some positions of a shard."""
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
        """Return the number of bytes of each image at some positions."""
        lengths = np.empty(len(positions), np.int64)
        split_of = np.searchsorted(list(self.firsts.values()), positions, side="right") - 1
        for number, (split, first) in enumerate(self.firsts.items()):
            if (mine := split_of == number).any():
                lengths[mine] = self._column(split, "length")[positions[mine] - first]
        return lengths

    def fits(self, piece: Piece, data: bytes | None) -> bool:
        """Return True if the bytes have the length of a piece, and the hash if it is known."""
        if data is None or len(data) != piece.length:
            return False
        if piece.sha256 is None:
            return True
        try:
            example = self.example(piece.position, data)
        except IntegrityError:
            return False
        return hashlib.sha256(example).digest() == piece.sha256

    def example(self, position: int, data: bytes) -> bytes:
        """Extract the example from the bytes of a row: of a table, its features from its JSON."""
        roles = self.dataset.manifest.roles
        if not self.member or roles.modality != "table":
            return data
        try:
            values = read_json(data)
            return features_as_bytes([values[name] for name in roles.example])
        except (ValueError, TypeError, KeyError) as error:
            raise IntegrityError(
                f"{self.dataset.address}: the JSON of row {position} of {self.base} does not have the "
                f"features of a row ({error!r:.200}): fetch or export it again"
            ) from error

    def hashes(self, shard: Shard, positions: Indices) -> NDArray[np.void]:
        """Return the sha256 of the examples at some positions of a shard, 32 bytes each."""
        hashes: NDArray[np.void] = self._column(shard.split, "sha256")[positions - self.firsts[shard.split]]
        return hashes

    def _column(self, split: str, name: str) -> NDArray[Any]:
        """Return a column of a split's pointers. Hashes are read apart: they are most of the bytes."""
        if name == "sha256":
            return self.dataset.keep((self.base, split, name), lambda: self._hashes(split))
        return self.dataset.keep((self.base, split), lambda: self._places(split))[name]

    def _hashes(self, split: str) -> NDArray[np.void]:
        table = self._read(split, ["sha256"])
        try:
            hashes = table["sha256"].cast(pa.binary(32)).combine_chunks()
        except pa.ArrowInvalid as error:
            where = f"{self.dataset.address}: a file of the rows of {self.base}/{split}"
            raise IntegrityError(f"{where} has a sha256 not of 32 bytes") from error
        return np.ndarray(len(hashes), "V32", hashes.buffers()[1])  # no object each: there may be many

    def _places(self, split: str) -> dict[str, NDArray[Any]]:
        """Return the offset and length of each row's example."""
        prefix = f"{self.member}_" if self.member else ""
        table = self._read(split, [f"{prefix}offset", f"{prefix}length"])
        return {name.removeprefix(prefix): table[name].to_numpy() for name in table.column_names}

    def _read(self, split: str, names: list[str]) -> pa.Table:
        """Read columns of the files with a split's rows, missing in none."""
        manifest = self.dataset.manifest
        paths = row_files(manifest.files, self.base, split)
        table = pa.concat_tables([read_columns(self.dataset, path, names) for path in paths])
        self.dataset.check_unchanged()  # else these pointers may be of another version
        expected = manifest.base(self.base).splits[split].rows
        if len(table) != expected or any(table[name].null_count for name in names):
            files = paths[0] if len(paths) == 1 else f"{paths[0]} to {paths[-1]}"
            raise IntegrityError(
                f"{self.dataset.address}: {files} has {len(table)} rows of {expected}, or rows without a "
                "pointer: fetch or build the dataset again"
            )
        return table.select(names)
