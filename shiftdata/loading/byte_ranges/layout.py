"""Which shard holds which row of a base, and where in it the row's example lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import IntegrityError
from shiftdata.format.manifest import Manifest
from shiftdata.format.schema import SPLITS
from shiftdata.loading.byte_ranges.ranges import Piece
from shiftdata.metadata.columns import read_columns
from shiftdata.places.search import Place

Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A data file: the position in the base of its first row, and what the manifest says of it."""

    path: str
    split: str
    first: int
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Layout:
    """The rows of a base over its shards: splits one after another in the order of `SPLITS`.

    Within a split rows are in the order of its files, as in `shiftdata.Metadata`. Pointers are read from
    `index`, when a row of their split is first asked for.
    """

    place: Place
    index: Place
    manifest: Manifest
    base: str
    shards: tuple[Shard, ...]
    firsts: dict[str, int]
    _columns: dict[tuple[str, str], NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, place: Place, base: str, index: Path | None = None) -> Layout:
        """The layout that a dataset's manifest tells; `index` is a folder with manifest and metadata."""
        known = Place(place.repo_id, index) if index is not None else place
        manifest = known.manifest()
        splits = manifest.base(base).splits
        shards: list[Shard] = []
        firsts, total = {}, 0
        for split in (name for name in SPLITS if name in splits):
            firsts[split] = total
            for path in sorted(path for path in manifest.files if path.startswith(f"data/{base}/{split}-")):
                record = manifest.files[path]
                shards.append(
                    Shard(
                        path=path,
                        split=split,
                        first=total,
                        rows=record.rows or 0,
                        bytes=record.bytes,
                        sha256=record.sha256,
                    )
                )
                total += shards[-1].rows
            if total - firsts[split] != splits[split].rows:
                raise IntegrityError(
                    f"{place.source}: the manifest lists {total - firsts[split]} rows in the files of "
                    f"{base}/{split} and {splits[split].rows} in the split: fetch or build it again"
                )
        return cls(place, known, manifest, base, tuple(shards), firsts)

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def by_shard(self, positions: Indices) -> list[tuple[Shard, Indices]]:
        """Sorted positions, cut by shard."""
        cuts = np.searchsorted(positions, [shard.first + shard.rows for shard in self.shards])
        parts = np.split(positions, cuts)
        return [(shard, part) for shard, part in zip(self.shards, parts, strict=False) if len(part)]

    def pieces(self, shard: Shard, positions: Indices, *, hashes: bool) -> list[Piece]:
        """Where the images at some positions of a shard lie; with their hashes if asked."""
        at = positions - self.firsts[shard.split]
        offset, length = (self._column(shard.split, name)[at].tolist() for name in ("offset", "length"))
        sha256 = self.hashes(shard, positions) if hashes else [None] * len(at)
        rows = (positions - shard.first).tolist()
        found = list(map(Piece, positions.tolist(), rows, offset, length, sha256))
        for piece in found:
            if not 0 <= piece.start <= piece.end <= shard.bytes:
                raise IntegrityError(
                    f"{self.place.source}: metadata puts row {piece.row} of {shard.path} at the bytes "
                    f"{piece.start} to {piece.end} of {shard.bytes}: fetch or build the dataset again"
                )
        return found

    def hashes(self, shard: Shard, positions: Indices) -> list[bytes]:
        """The sha256 of the examples at some positions of a shard."""
        found: list[bytes] = self._column(shard.split, "sha256")[
            positions - self.firsts[shard.split]
        ].tolist()
        return found

    def _column(self, split: str, name: str) -> NDArray[Any]:
        """A column of a split's pointers; hashes are read apart, since they are most of the bytes."""
        if (split, name) not in self._columns:
            names = ["sha256"] if name == "sha256" else ["offset", "length"]
            path = f"metadata/{self.base}/{split}.parquet"
            table = read_columns(self.index, path, names)
            expected = self.manifest.base(self.base).splits[split].rows
            if len(table) != expected or any(table[one].null_count for one in names):
                raise IntegrityError(
                    f"{self.place.source}: {path} has {len(table)} rows of {expected}, or rows without a "
                    "pointer: fetch or build the dataset again"
                )
            for one in names:
                self._columns[split, one] = table[one].to_numpy()
        return self._columns[split, name]
