"""Rows and examples of a Parquet dataset as samples of tars: their order, their members and their bytes."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.dataset import OpenDataset
from shiftdata.errors import IntegrityError
from shiftdata.exporting.reading import batches, ending_of
from shiftdata.files import whole_file
from shiftdata.format.identity import base_content_id
from shiftdata.format.paths import data_files, in_order, metadata_file
from shiftdata.format.records import Base
from shiftdata.format.schema import columns
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.metadata.columns import read_columns
from shiftdata.places.store import Folder
from shiftdata.stable import uniform
from shiftdata.threads import ahead

Indices = NDArray[np.int64]


def stratified_order(keys: Sequence[str], *strata: NDArray[Any]) -> Indices:
    """Order rows so that every stretch of them has each stratum in about its share of the whole.

    `strata` go from coarse to fine, such as label, nuisance and severity. Rows of the finest cell lie by
    stable hash. Then, from fine to coarse, the i-th of the n rows of a cell gets a random place within the
    i-th n-th of its whole: no cell clusters, and no period repeats. The order of the input never matters.
    """
    place = np.array([uniform("wds", key) for key in keys])
    cells = _nested(len(keys), strata)
    for depth, cell in reversed(list(enumerate(cells))):
        order = np.lexsort((place, cell))
        sizes = np.bincount(cell)
        nth = np.arange(len(keys)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        jitter = np.array([uniform("wds", depth, keys[row]) for row in order])
        place[order] = (nth + jitter) / np.repeat(sizes, sizes)
    return np.lexsort((np.array(keys), place)).astype(np.int64)


def _nested(rows: int, strata: Sequence[NDArray[Any]]) -> list[Indices]:
    """A number for the cell of each row: by the first stratum, by the first two, ..."""
    cells = []
    cell = np.zeros(rows, np.int64)
    for stratum in strata:
        values, codes = np.unique(stratum, return_inverse=True)
        cell = np.unique(cell * len(values) + codes, return_inverse=True)[1].astype(np.int64)
        cells.append(cell)
    return cells


BLOCK = tarfile.BLOCKSIZE

#: The members of a sample by their extensions, in the order of the tar.
Members = Mapping[str, bytes]


def write_tar(path: Path, samples: Iterable[tuple[str, Members]]) -> dict[str, list[int]]:
    """Write samples one after the other; return offset and length of each member, a list per column."""
    places: dict[str, list[int]] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for key, members in samples:
            for member, data in members.items():
                file.write(_header(f"{key}.{member}", len(data)))
                places.setdefault(f"{member}_offset", []).append(file.tell())
                places.setdefault(f"{member}_length", []).append(len(data))
                file.write(data + bytes(-len(data) % BLOCK))
        end = file.tell() + 2 * BLOCK
        file.write(bytes(2 * BLOCK + -end % tarfile.RECORDSIZE))
        file.flush()
        os.fsync(file.fileno())
    return places


def _header(name: str, size: int) -> bytes:
    """A member's header, without owner or time; names over 100 characters get one more block."""
    info = tarfile.TarInfo(name)  # owner 0, modified at 0, mode 0644
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


class Source:
    """A dataset to export; data files that are not on this machine are downloaded into `cache`."""

    def __init__(self, dataset: OpenDataset, cache: Path, on_samples: Callable[[int], object]) -> None:
        self.dataset = dataset
        self.cache = cache
        self.on_samples = on_samples
        self._roles = dataset.manifest.roles
        self._plain = list(columns(self._roles.nuisance))

    def rows(self, base: Base) -> dict[str, pa.Table]:
        """The metadata of each split, compared with the identity of the base."""
        names = [*self._plain, "length", "sha256"]
        tables = {
            split: read_columns(self.dataset, metadata_file(base.name, split), names)
            for split in in_order(base.splits)
        }
        self.dataset.check_unchanged(force=True)  # else these rows may be of another version
        every = pa.concat_tables(tables.values())
        if base_content_id(every, self.dataset.manifest, base) != base.content_id:
            raise IntegrityError(
                f"{self.dataset.address}: metadata/{base.name} has other rows than the manifest says: "
                "fetch or build the dataset again"
            )
        return tables

    def samples(
        self, base: Base, split: str, rows: pa.Table, order: Indices
    ) -> Iterator[tuple[str, Members]]:
        """The samples of some rows of a split, in that order, as members of a tar."""
        splits = in_order(base.splits)
        first = sum(base.splits[one].rows for one in splits[: splits.index(split)])
        numbers = order.tolist()
        # Texts and tables are read by row group: one pass over them per tar.
        by_bytes = self._roles.modality == "image"
        parts = list(batches(numbers, rows["length"].to_numpy())) if by_bytes else [numbers]

        def read(part: list[int]) -> list[bytes]:
            return reader.read([first + number for number in part])

        with self._reader(base.name, split) as reader, closing(ahead(read, parts, workers=1)) as examples:
            for part, some in zip(parts, examples, strict=True):
                records = rows.take(part).to_pylist()
                for row, example in zip(records, some, strict=True):
                    yield row["key"], self._members(row, example)
                    self.on_samples(1)

    def _reader(self, base: str, split: str) -> ExampleReader:
        dataset = self.dataset
        if dataset.folder is not None:
            return ExampleReader(dataset, base, verify=True)
        for path in data_files(dataset.manifest.files, base, split):
            if not (self.cache / path).exists():
                with whole_file(self.cache / path) as part:
                    dataset.store.download(path, part, dataset.manifest.files[path], lambda count: None)
        return ExampleReader(dataset, base, verify=True, source=Folder(self.cache))

    def _members(self, row: Mapping[str, Any], example: bytes) -> Members:
        """The files of a sample: the example, its label, and the row; a row of a table has its example."""
        fields = {name: row[name] for name in self._plain}
        if self._roles.modality == "table":
            fields |= zip(self._roles.example, json.loads(example), strict=True)
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        members = {"cls": str(row["label"]).encode(), "json": text.encode()}
        return {self._extension: example} | members if self._extension else members

    @cached_property
    def _extension(self) -> str:
        """The extension of the member with the example, if it has one: `jpg`, `png`, `txt`, ..."""
        if self._roles.modality != "image":
            return "txt" if self._roles.modality == "text" else ""
        with ExampleReader(self.dataset, self.dataset.manifest.default_base) as reader:
            return ending_of(reader.read([0])[0]).lstrip(".")
