"""Rows and examples of a Parquet dataset as samples of tars, from wherever the dataset lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.exporting.reading import batches, ending_of
from shiftdata.data.exporting.webdataset.entries import Entry, Samples
from shiftdata.data.exporting.webdataset.tar import Members
from shiftdata.data.format.paths import data_files
from shiftdata.data.format.schema import json_columns
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.places.store import Folder
from shiftdata.files import whole_file
from shiftdata.threads import ahead


class Source:
    """The examples of a dataset; those that are not on this machine are downloaded into `cache`."""

    def __init__(
        self, dataset: OpenDataset, base: str, cache: Path, on_samples: Callable[[int], object]
    ) -> None:
        self.dataset = dataset
        self.base = base  # one of those that are exported
        self.cache = cache
        self.on_samples = on_samples
        self._roles = dataset.manifest.roles
        self._columns = json_columns(self._roles.nuisance)

    def read(self, reader: ExampleReader, samples: Samples) -> Iterator[tuple[str, Members]]:
        """The samples of a tar, as members of it."""
        # Texts and tables are read by row group: one pass over them per tar.
        by_bytes, every = self._roles.modality == "image", range(len(samples.at))
        parts = list(batches(every, samples.rows["length"].to_numpy())) if by_bytes else [list(every)]
        names = samples.names()

        def read(part: list[int]) -> list[bytes]:
            return reader.read(samples.at[part].tolist())

        with closing(ahead(read, parts, workers=1)) as examples:
            for part, some in zip(parts, examples, strict=True):
                records = samples.rows.take(part).to_pylist()
                for number, row, example in zip(part, records, some, strict=True):
                    yield names[number], self._members(row, example)
                    self.on_samples(1)

    def reader(self, entry: Entry, name: str, samples: Samples) -> ExampleReader:
        """What reads the examples of a set; of a dataset elsewhere, they are fetched first."""
        dataset, base = self.dataset, entry.base.name
        if dataset.folder is not None:
            return ExampleReader(dataset, base, verify=True)
        if entry.record.task is not None:
            return self._reader_of_task(entry, name, samples)
        for path in data_files(dataset.manifest.files, base, name):
            if not (self.cache / path).exists():
                with whole_file(self.cache / path) as part:
                    dataset.store.download(path, part, dataset.manifest.files[path], lambda count: None)
        return ExampleReader(dataset, base, verify=True, source=Folder(self.cache))

    def _reader_of_task(self, entry: Entry, name: str, samples: Samples) -> ExampleReader:
        """Fetch the pictures of a set in the order of their files: scattered ones would be a request each."""
        folder = self.cache / entry.record.name / name
        reader = ExampleReader(self.dataset, entry.base.name, verify=True, cache=folder)
        if self._roles.modality == "image" and not folder.exists():
            rows, first = np.unique(samples.at, return_index=True)
            lengths = samples.rows["length"].to_numpy()[first]
            for part in batches(range(len(rows)), lengths):
                reader.read(rows[part].tolist())
        return reader

    def _members(self, row: Mapping[str, Any], example: bytes) -> Members:
        """The files of a sample: the example, its label, and the row; a row of a table has its example.

        A sample without label has null for what is hidden: `datasets` wants the same fields in each sample.
        """
        fields = {name: row[name] for name in self._columns}
        if self._roles.modality == "table":
            fields |= zip(self._roles.example, json.loads(example), strict=True)
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        members = {"cls": str(row["label"]).encode()} if row["label"] is not None else {}
        members["json"] = text.encode()
        return {self._extension: example} | members if self._extension else members

    @property
    def members(self) -> list[str]:
        """The members of a sample that has a label."""
        return [*([self._extension] if self._extension else []), "cls", "json"]

    @cached_property
    def _extension(self) -> str:
        """The extension of the member with the example, if it has one: `jpg`, `png`, `txt`, ..."""
        if self._roles.modality != "image":
            return "txt" if self._roles.modality == "text" else ""
        with ExampleReader(self.dataset, self.base) as reader:
            return ending_of(reader.read([0])[0]).lstrip(".")
