"""The spool: rendered blocks on disk, each whole or absent, so that a killed build goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from shiftdata.errors import IntegrityError
from shiftdata.files import whole_file

ROW = pa.schema(
    {
        "item": pa.string(),
        "key": pa.string(),
        "nuisance": pa.string(),
        "trajectory": pa.string(),
        "severity": pa.float64(),
        "params": pa.string(),
        "sha256": pa.binary(32),
        "size": pa.int32(),
        "example": pa.binary(),
    }
)
WITHOUT_EXAMPLE = [number for number, name in enumerate(ROW.names) if name != "example"]


@dataclass(frozen=True)
class Spool:
    """A folder with one Arrow file a block. A file's presence is the mark that its block is done."""

    folder: Path

    def path(self, block: str) -> Path:
        """Where a block lies, or will lie."""
        return self.folder / f"{block}.arrow"

    def __contains__(self, block: str) -> bool:
        return self.path(block).exists()

    def write(self, block: str, rows: Sequence[Mapping[str, object]], drops: Mapping[str, str]) -> None:
        """Store a rendered block; `drops` gives the reason for each item that could not be used."""
        table = pa.Table.from_pylist(list(rows), schema=ROW).replace_schema_metadata(
            {"drops": json.dumps(drops)}
        )
        with (
            whole_file(self.path(block)) as temporary,
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)

    def read(self, block: str) -> tuple[pa.Table, dict[str, str]]:
        """A block's rows without their examples, and its drops."""
        with self._clear_when_damaged(block) as path, pa.OSFile(str(path)) as source:
            options = pa.ipc.IpcReadOptions(included_fields=WITHOUT_EXAMPLE)
            table = pa.ipc.open_file(source, options=options).read_all()
            return table, json.loads(table.schema.metadata[b"drops"])

    def examples(self, block: str) -> pa.BinaryArray:
        """The encoded examples of a block's rows; they stay on disk until they are touched."""
        with self._clear_when_damaged(block) as path:
            return pa.ipc.open_file(pa.memory_map(str(path))).read_all()["example"].combine_chunks()

    @contextmanager
    def _clear_when_damaged(self, block: str) -> Iterator[Path]:
        path = self.path(block)
        try:
            yield path
        except (OSError, pa.ArrowInvalid) as error:
            raise IntegrityError(
                f"{path} is damaged ({error}): delete it and run the same command again"
            ) from error
