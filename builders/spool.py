"""The spool: rendered blocks in a folder or in object storage, so that a killed build goes on where it was.

A file is a block, whole or absent: two Arrow streams, first its rows without their examples, then those.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

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
AHEAD = 4  # blocks that are read before they are asked for

T = TypeVar("T")


@dataclass(frozen=True)
class Spool:
    """A folder with one file a block. A file's presence is the mark that its block is done."""

    folder: Path

    def path(self, block: str) -> Path:
        """Where a block lies, or will lie."""
        return self.folder / f"{block}.arrow"

    def __contains__(self, block: str) -> bool:
        return self.path(block).exists()

    def write(self, block: str, rows: Sequence[Mapping[str, object]], drops: Mapping[str, str]) -> None:
        """Store a rendered block; `drops` gives the reason for each item that could not be used."""
        table = pa.Table.from_pylist(list(rows), schema=ROW)
        described = table.drop_columns(["example"]).replace_schema_metadata({"drops": json.dumps(drops)})
        with whole_file(self.path(block)) as temporary, pa.OSFile(str(temporary), "wb") as sink:
            for part in (described, table.select(["example"])):
                with pa.ipc.new_stream(sink, part.schema) as writer:
                    writer.write_table(part)

    def rows(self, blocks: Sequence[str]) -> Iterator[tuple[pa.Table, dict[str, str]]]:
        """The rows of some blocks, without their examples, and the drops of each; in order, read ahead."""
        return _ahead(self.read, blocks)

    def blocks(self, blocks: Sequence[str]) -> Iterator[tuple[pa.Table, dict[str, str]]]:
        """The rows of some blocks, with their examples, and the drops of each; in order, read ahead."""
        return _ahead(self._whole, blocks)

    def read(self, block: str) -> tuple[pa.Table, dict[str, str]]:
        """A block's rows without their examples, and its drops."""
        with self._clear_when_damaged(block) as file:
            return _described(file)

    def examples(self, block: str) -> pa.BinaryArray:
        """The encoded examples of a block's rows."""
        return self._whole(block)[0]["example"].combine_chunks()

    def _whole(self, block: str) -> tuple[pa.Table, dict[str, str]]:
        with self._clear_when_damaged(block) as file:
            table, drops = _described(file)
            examples = pa.ipc.open_stream(file).read_all()
            return table.append_column("example", examples["example"]), drops

    @contextmanager
    def _clear_when_damaged(self, block: str) -> Iterator[pa.NativeFile]:
        path = self.path(block)
        try:
            with pa.OSFile(str(path)) as file:
                yield file
        except (OSError, pa.ArrowInvalid) as error:
            raise IntegrityError(
                f"{path} is damaged ({error}): delete it and run the same command again"
            ) from error


def _described(file: pa.NativeFile) -> tuple[pa.Table, dict[str, str]]:
    table = pa.ipc.open_stream(file).read_all()
    return table.replace_schema_metadata(None), json.loads(table.schema.metadata[b"drops"])


def _ahead(read: Callable[[str], T], blocks: Sequence[str]) -> Iterator[T]:
    """Read blocks in some threads, a few ahead of the caller."""
    names, running = iter(blocks), deque[Future[T]]()
    with ThreadPoolExecutor(AHEAD) as pool:
        running.extend(pool.submit(read, name) for name in islice(names, AHEAD))
        while running:
            yield running.popleft().result()
            running.extend(pool.submit(read, name) for name in islice(names, 1))
