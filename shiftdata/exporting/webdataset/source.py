"""Rows and examples of a Parquet dataset, wherever it lies, as samples of tars."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from shiftdata.dataset import OpenDataset
from shiftdata.errors import IntegrityError
from shiftdata.exporting.reading import batches, ending_of
from shiftdata.exporting.webdataset.order import Indices
from shiftdata.exporting.webdataset.tars import Members
from shiftdata.files import whole_file
from shiftdata.format.identity import base_content_id
from shiftdata.format.manifest import Base
from shiftdata.format.paths import data_files, in_order, metadata_file
from shiftdata.format.schema import columns
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.metadata.columns import read_columns
from shiftdata.places.store import Folder
from shiftdata.threads import ahead


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
