"""Rows and examples of a Parquet dataset, from a folder or from elsewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.dataset import OpenDataset
from shiftdata.errors import IntegrityError
from shiftdata.exporting.webdataset.order import Indices
from shiftdata.exporting.webdataset.tars import Members
from shiftdata.files import whole_file
from shiftdata.format.identity import base_content_id
from shiftdata.format.manifest import Base, Manifest
from shiftdata.format.schema import columns, features_as_bytes
from shiftdata.places.store import MissingFileError


@dataclass(frozen=True)
class Source:
    """A dataset to export; files that are not on this machine are fetched into `cache`, each once."""

    dataset: OpenDataset
    cache: Path

    @property
    def manifest(self) -> Manifest:
        return self.dataset.manifest

    def file(self, path: str) -> Path:
        """A file of the dataset on this machine."""
        file = (self.dataset.folder or self.cache) / path
        if self.dataset.folder is None and not file.exists():
            self._fetch(path, file)
        promised = self.manifest.files[path].bytes if path in self.manifest.files else None
        if not file.is_file() or file.stat().st_size != promised:
            raise self._damaged(f"{path} is missing, or not as the manifest says")
        return file

    def rows(self, base: Base) -> dict[str, pa.Table]:
        """The metadata of each split, compared with the identity of the base."""
        names = [*columns(self.manifest.roles.nuisance), "shard", "offset", "length", "sha256"]
        tables = {
            split: pq.read_table(self.file(f"metadata/{base.name}/{split}.parquet"), columns=names)
            for split in base.splits
        }
        told = self.manifest
        every = pa.concat_tables(tables.values())
        if base_content_id(every, told, base) != base.content_id:
            raise self._damaged(f"metadata/{base.name} holds other rows than the manifest says")
        return tables

    def samples(
        self, base: Base, split: str, rows: pa.Table, order: Indices
    ) -> Iterator[tuple[str, Members]]:
        """The samples of some rows of a split, in that order, as members of a tar."""
        plain = list(columns(self.manifest.roles.nuisance))
        with ExitStack() as stack:
            examples = self._examples(base, split, stack)
            for row, number in zip(rows.take(order).to_pylist(), order.tolist(), strict=True):
                example = examples(row, number)
                if hashlib.sha256(self._identifying(example)).digest() != row["sha256"]:
                    raise self._damaged(f"the example of {row['key']!r} is not as its metadata says")
                yield row["key"], self._members({name: row[name] for name in plain}, example)

    def _examples(self, base: Base, split: str, stack: ExitStack) -> Callable[[Mapping[str, Any], int], Any]:
        """A function from a row and its number to its example: bytes, or the values of its columns."""
        paths = sorted(path for path in self.manifest.files if path.startswith(f"data/{base.name}/{split}-"))
        files = [self.file(path) for path in paths]
        if self.manifest.roles.modality == "image":
            opened = [stack.enter_context(file.open("rb")) for file in files]

            def image(row: Mapping[str, Any], number: int) -> bytes:
                shard = opened[int(row["shard"])]
                shard.seek(row["offset"])
                return shard.read(row["length"])

            return image
        names = list(self.manifest.roles.example)
        table = pa.concat_tables([pq.read_table(file, columns=names) for file in files])

        def columns_of(row: Mapping[str, Any], number: int) -> Mapping[str, Any]:
            (values,) = table.slice(number, 1).to_pylist()
            return dict(values)

        return columns_of

    def _identifying(self, example: Any) -> bytes:
        """The bytes whose hash identifies an example."""
        if isinstance(example, bytes):
            return example
        values = [example[name] for name in self.manifest.roles.example]
        return (
            str(values[0]).encode() if self.manifest.roles.modality == "text" else features_as_bytes(values)
        )

    def _members(self, row: Mapping[str, Any], example: Any) -> Members:
        """The files of a sample: the example, its label, and the row; a row of a table holds its example."""
        members: dict[str, bytes] = {}
        if self.manifest.roles.modality == "table":
            row = {**row, **example}
        else:
            members[self.extension] = self._identifying(example)
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return members | {"cls": str(row["label"]).encode(), "json": text.encode()}

    @property
    def members(self) -> Sequence[str]:
        """The extensions of a sample's members."""
        return [*([self.extension] if self.extension else []), "cls", "json"]

    @cached_property
    def extension(self) -> str:
        """The extension of the member with the example itself, if it has one: `jpg`, `png`, `txt`, ..."""
        if self.manifest.roles.modality != "image":
            return "txt" if self.manifest.roles.modality == "text" else ""
        first = min(path for path in self.manifest.files if path.startswith("data/"))
        with pq.ParquetFile(self.file(first)) as file:
            batch = next(file.iter_batches(batch_size=1, columns=["image.path"]))
        return Path(batch.to_pylist()[0]["image"]["path"]).suffix.lower().lstrip(".")

    def _fetch(self, path: str, file: Path) -> None:
        try:
            with whole_file(file) as part:
                self.dataset.store.download(path, part, None, lambda count: None)
        except MissingFileError as error:
            raise self._damaged(f"{path} is missing") from error

    def _damaged(self, what: str) -> IntegrityError:
        where = self.dataset.address
        return IntegrityError(f"{where}: {what}; `shiftdata verify {where}` says more, then fetch it again")
