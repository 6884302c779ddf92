"""Rows and examples of a Parquet dataset, wherever it lies, as samples of tars of nobody and no time."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.exporting.sets import batches, ending_of
from shiftdata.data.exporting.webdataset.samples import Samples
from shiftdata.data.format.schema import json_columns
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.threads import ahead
from shiftdata.untrusted.texts import read_json

BLOCK = tarfile.BLOCKSIZE

#: The members of a sample by their extensions, in the order of the tar.
Members = Mapping[str, bytes]


def write_tar(path: Path, samples: Iterable[tuple[str, Members]]) -> dict[str, list[int | None]]:
    """Write samples one after the other; return offset and length of each member, a list per column.

    A member that a sample lacks has None.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    places: list[dict[str, int]] = []
    with path.open("wb") as file:
        for key, members in samples:
            places.append({})
            for member, data in members.items():
                file.write(_header(f"{key}.{member}", len(data)))
                places[-1] |= {f"{member}_offset": file.tell(), f"{member}_length": len(data)}
                file.write(data + bytes(-len(data) % BLOCK))
        file.write(bytes(2 * BLOCK))  # two empty blocks end a tar; more, up to a tape's record, say nothing
        file.flush()
        os.fsync(file.fileno())
    names = dict.fromkeys(name for of_sample in places for name in of_sample)
    return {name: [of_sample.get(name) for of_sample in places] for name in names}


def _header(name: str, size: int) -> bytes:
    """Return a member's header, without owner or time; names over 100 characters get one more block."""
    info = tarfile.TarInfo(name)  # owner 0, modified at 0, mode 0644
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


class Source:
    """The examples of a dataset, as samples."""

    def __init__(self, dataset: OpenDataset, on_samples: Callable[[int], object]) -> None:
        self.dataset = dataset
        self.on_samples = on_samples
        self._roles = dataset.manifest.roles
        self._columns = json_columns(self._roles.nuisance)

    def read(self, reader: ExampleReader, samples: Samples) -> Iterator[tuple[str, Members]]:
        """Yield the samples of a tar, as members of it."""
        # Texts and tables are read by row group: one pass over them per tar.
        by_bytes, every = self._roles.modality == "image", range(len(samples.at))
        parts = list(batches(every, samples.rows["length"].to_numpy())) if by_bytes else [list(every)]
        names = samples.names()

        def read(part: list[int]) -> list[bytes]:
            return reader.read(samples.at[part].tolist())

        with closing(ahead(read, parts, workers=1)) as ready:
            for part, examples in zip(parts, ready, strict=True):
                rows = samples.rows.take(part).to_pylist()
                for number, row, example in zip(part, rows, examples, strict=True):
                    yield names[number], self._members(row, example)

    def reader(self, base: str) -> ExampleReader:
        return ExampleReader(self.dataset, base, verify=True)

    def _members(self, row: Mapping[str, Any], example: bytes) -> Members:
        """Return the files of a sample: the example, its label, and the row; a table's row has its example.

        A sample without label has null for what is hidden: `datasets` wants the same fields in each sample.
        """
        fields = {name: row[name] for name in self._columns}
        if self._roles.modality == "table":
            fields |= zip(self._roles.example, read_json(example), strict=True)
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
        with ExampleReader(self.dataset, self.dataset.manifest.default_base) as reader:
            return ending_of(reader.read([0])[0]).lstrip(".")
