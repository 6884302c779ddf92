"""The spool: rendered blocks in a folder or in object storage, so that a killed build goes on where it was.

A file is a block, whole or absent: two Arrow streams, first its rows without their examples, then those, each
with a hash of its bytes behind it.
Several processes, on several machines, may fill a spool at once. It is in use while its mark is there, which
comes before the first block and goes before the last one does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from xxhash import xxh3_128_digest

from builders.objects import Writable, writable
from shiftdata.data.places.store import MissingFileError
from shiftdata.errors import IntegrityError
from shiftdata.stable import content_hash
from shiftdata.threads import ahead
from shiftdata.untrusted.texts import read_json

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
MARK, SUFFIX = "in_use.json", ".arrow"
#: Hexadecimal digits of the folders among which blocks are spread.
FAN = 2
#: Blocks that are read before they are asked for: from a disk, and from afar.
AHEAD, AHEAD_FAR = 4, 16
#: Bytes of a block that are read at first for its rows; later as many as they had.
FIRST_BYTES = 64 << 10
HASH_BYTES = len(xxh3_128_digest(b""))

Rows: TypeAlias = tuple[pa.Table, dict[str, str]]


class Spool:
    """A place with a file for each block. A file's presence says that its block is done.

    It may have files of other names too, for what belongs to blocks. Safe to use from several threads.
    """

    def __init__(self, place: str | Path) -> None:
        self.files: Writable = writable(place)
        self._first = FIRST_BYTES

    def open(self, about: Mapping[str, object]) -> None:
        """Mark the spool as in use, and say for what."""
        if not self.is_open():
            self.files.write(MARK, json.dumps(about).encode())

    def is_open(self) -> bool:
        """Return True if the spool is in use; it is removed once all of it is packed."""
        return self.files.has(MARK)

    def clear(self) -> None:
        """Remove the spool, the mark first."""
        self.files.delete(MARK)
        self.files.clear()

    def listing(self) -> dict[str, set[str]]:
        """The blocks that are there (under ""), and those with a table in each folder next to them."""
        blocks: dict[str, set[str]] = defaultdict(set)
        for name in self.files.listed():
            folder, _, file = name.rpartition("/")
            if file.endswith(SUFFIX):
                blocks[folder[: -FAN - 1]].add(file.removesuffix(SUFFIX))
        return blocks

    def __contains__(self, block: str) -> bool:
        return self.files.has(_name(block))

    def has_beside(self, folder: str, block: str) -> bool:
        """Return True if a folder next to the blocks has a table of a block."""
        return self.files.has(_name(block, folder))

    def size(self, block: str) -> int:
        """Return the bytes of the file of a block."""
        return self.files.info(_name(block)).size or 0

    def path(self, block: str, beside: str = "") -> str:
        """Return the path of a block, or of a table next to it."""
        return f"{self.files.address}/{_name(block, beside)}"

    def write(self, block: str, rows: Sequence[Mapping[str, object]], drops: Mapping[str, str]) -> None:
        """Store a rendered block; `drops` gives the reason for each item that could not be used."""
        table = pa.Table.from_pylist(list(rows), schema=ROW)
        described = table.drop_columns(["example"]).replace_schema_metadata({"drops": json.dumps(drops)})
        self.files.write(_name(block), sealed(described) + sealed(table.select(["example"])))

    def rows(self, blocks: Iterable[str]) -> Iterator[Rows]:
        """The rows of some blocks, without their examples, and the drops of each; in order, read ahead."""
        return ahead(self.read, blocks, self._ahead, queued=1)

    def blocks(self, blocks: Iterable[str]) -> Iterator[Rows]:
        """The rows of some blocks, with their examples, and the drops of each; in order, read ahead."""
        return ahead(self.whole, blocks, self._ahead, queued=1)

    def read(self, block: str) -> Rows:
        """A block's rows without their examples, and its drops."""
        most = self._first
        while True:
            data = self._start(block, most)
            source = pa.BufferReader(data)
            try:
                rows = _rows(unsealed(source))
            except (OSError, pa.ArrowInvalid) as error:
                if len(data) < most:
                    raise self._damaged(block, error) from error
                most *= 4
            else:
                self._first = max(self._first, source.tell() * 5 // 4)
                return rows

    def write_beside(self, folder: str, block: str, table: pa.Table) -> None:
        """Store a table that belongs to a block, in a folder next to the blocks."""
        self.files.write(_name(block, folder), sealed(table))

    def read_beside(self, folder: str, block: str) -> pa.Table | None:
        """A table that belongs to a block; None if it is not there or cannot be read."""
        try:
            data = self.files.start(_name(block, folder))
        except MissingFileError:
            return None
        try:
            return unsealed(pa.BufferReader(data))
        except (OSError, pa.ArrowInvalid):
            return None

    def delete_beside(self, folder: str, block: str) -> None:
        """Remove a table that belongs to a block."""
        self.files.delete(_name(block, folder))

    @property
    def _ahead(self) -> int:
        return AHEAD_FAR if self.files.is_far else AHEAD

    def whole(self, block: str) -> Rows:
        """A block's rows with their examples, and its drops."""
        source = pa.BufferReader(self._start(block))
        try:
            table, drops = _rows(unsealed(source))
            return table.append_column("example", unsealed(source)["example"]), drops
        except (OSError, pa.ArrowInvalid) as error:
            raise self._damaged(block, error) from error

    def _start(self, block: str, most: int | None = None) -> bytes:
        try:
            return self.files.start(_name(block), most)
        except MissingFileError as error:
            raise IntegrityError(f"{self.path(block)} has gone: run the same command again") from error

    def _damaged(self, block: str, error: Exception) -> IntegrityError:
        return IntegrityError(
            f"{self.path(block)} is damaged ({error}): delete it and run the same command again"
        )


def _name(block: str, folder: str = "") -> str:
    """The file of a block; in many folders, for no place likes a million of files in one."""
    name = f"{content_hash(block)[:FAN]}/{block}{SUFFIX}"
    return f"{folder}/{name}" if folder else name


def sealed(table: pa.Table) -> bytes:
    """Return a table as a stream of Arrow with a hash of its bytes behind it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    return bytes(data) + xxh3_128_digest(data)


def unsealed(source: pa.BufferReader) -> pa.Table:
    """Read the next table that was `sealed`; an `ArrowInvalid` if it is not as it was written."""
    start = source.tell()
    table = pa.ipc.open_stream(source).read_all()
    size = source.tell() - start
    source.seek(start)
    if xxh3_128_digest(source.read_buffer(size)) != source.read(HASH_BYTES):
        raise pa.ArrowInvalid("its bytes are not those that were written")
    return table


def _rows(table: pa.Table) -> Rows:
    return table.replace_schema_metadata(None), read_json(table.schema.metadata[b"drops"])
