"""Parquet of anybody: what footer and page headers declare is compared with the limits before a page is read.

A kilobyte can declare a terabyte, a text that is in the file once may be that of every row.
"""

from __future__ import annotations

import io
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.errors import IntegrityError, LimitError, ShiftdataError
from shiftdata.untrusted.limits import check, check_unpacked
from shiftdata.untrusted.pages import UnreadableError, check_pages, repeats

Source: TypeAlias = "Path | IO[bytes] | pa.NativeFile | bytes | pa.Buffer"

TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
#: Bytes that contain most footers.
TAIL = 12 << 10
#: Bytes that are decoded at once where rows are read batch by batch.
BYTES_AT_ONCE = 8 << 20


class ParquetReader:
    """An open Parquet file of which no more is decoded than the limits allow; faults are `IntegrityError`s.

    A `footer` that is known is not read again. The pages of a file that is `far` away are not looked at
    before they are read: each would be a request. A stream stays open: whoever opened it closes it.
    """

    def __init__(
        self, source: Source, name: str = "", *, footer: pq.FileMetaData | None = None, far: bool = False
    ) -> None:
        self.name = name or (source.name if isinstance(source, Path) else "the table")
        self._source, self._file = source, _opened(source)
        self._far = far
        try:
            self.size: int = self._file.seek(0, io.SEEK_END) or self._file.tell()
            with self._reading():
                self.footer = footer or _footer(self._file, self.size, self.name)
            groups = range(self.footer.num_row_groups)
            #: The rows of each row group; the footer's own sum may be another.
            self.group_rows = [self.footer.row_group(number).num_rows for number in groups]
            self.rows = sum(self.group_rows)
            check("parquet_columns", self.footer.num_columns, self.name)
            check("parquet_rows", self.rows, self.name)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not self._source:
            self._file.close()

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow has them."""
        with self._reading():
            return self.footer.schema.to_arrow_schema()

    def read(
        self,
        columns: Sequence[str] | None = None,
        groups: Sequence[int] | None = None,
        coded: Sequence[str] = (),
        most_rows: int | None = None,
    ) -> pa.Table:
        """Read columns, of all row groups or some; texts that are `coded` come with a dictionary.

        With `most_rows` it must be a table of that many rows at most, of numbers and texts.
        """
        names, chosen = self._names(columns), self._groups(groups)
        if most_rows is not None:
            self._check_table(names, most_rows)
        self.check(names, chosen)
        with self._reading():
            file = self._decoder(names, chosen, coded)
            return self._decoded(file.read_row_groups(chosen, names), names, coded)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        count: int = 1 << 16,
        groups: Sequence[int] | None = None,
        coded: Sequence[str] = (),
    ) -> Iterator[pa.Table]:
        """Yield columns, at most `count` rows at a time; read in one call, all would stay in memory."""
        names = self._names(columns)
        for stretch in self._stretches(self._groups(groups)):
            self.check(names, stretch)
            file = self._decoder(names, stretch, coded)
            batches = file.iter_batches(count, stretch, columns=names, use_threads=False)
            while True:
                with self._reading():
                    if (batch := next(batches, None)) is None:
                        break
                    table = self._decoded(pa.Table.from_batches([batch]), names, coded)
                yield table

    def check(self, columns: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> None:
        """Refuse columns that would unpack to too much, as far as is known before they are decoded."""
        names, chosen = self._names(columns), self._groups(groups)
        rows = sum(self.group_rows[group] for group in chosen)
        # Not by name: of two columns with one name, no name finds either.
        unpacked = rows * sum(_width(field.type) for field in self.schema if field.name in names)
        for group in chosen:
            for chunk, is_flat in self._chunks(names, group):
                if not self._far:
                    with self._reading():
                        check_pages(self._file, chunk, self.name)
                unpacked += chunk.total_uncompressed_size + (0 if is_flat else 8 * chunk.num_values)
        self._check_unpacked(unpacked, rows)

    def _check_unpacked(self, unpacked: int, rows: int) -> None:
        text = f"would unpack {self.size:,} bytes to {rows:,} rows of {unpacked:,} bytes or more"
        check_unpacked("parquet", unpacked, self.size, self.name, text)

    def _check_table(self, names: Sequence[str], most_rows: int) -> None:
        for field in map(self.schema.field, names):
            if field.type.num_fields:
                given = f"{self.name} has {field.type} in its column {field.name!r}"
                raise IntegrityError(f"{given}: give numbers or texts")
        if self.rows > most_rows:
            given = f"has {self.rows:,} rows or more in {self.size:,} bytes"
            raise LimitError(f"{self.name} {given}: at most {most_rows:,} rows are read")

    def _names(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return list(self.schema.names)
        counts = Counter(self.schema.names)
        for name in columns:
            if counts[name] != 1:
                raise IntegrityError(f"{self.name} has {counts[name]} columns {name!r}: give one")
        return list(columns)

    def _groups(self, groups: Sequence[int] | None) -> list[int]:
        return list(range(len(self.group_rows)) if groups is None else groups)

    def _chunks(self, names: Sequence[str], group: int) -> Iterator[tuple[pq.ColumnChunkMetaData, bool]]:
        """Yield the chunks of columns; True for one that is all of its column."""
        described, wanted = self.footer.row_group(group), set(names)
        for number, (name, is_flat) in enumerate(self._leaves):
            if name in wanted:
                yield described.column(number), is_flat

    @cached_property
    def _leaves(self) -> list[tuple[str, bool]]:
        """The column of each leaf: its path does not say it, as names may have dots in them."""
        return [
            (field.name, not field.type.num_fields)
            for field in self.schema
            for _ in range(_leaf_count(field.type))
        ]

    def _stretches(self, groups: Sequence[int]) -> Iterator[list[int]]:
        waiting, size = list[int](), 0
        for group in groups:
            waiting.append(group)
            size += self.footer.row_group(group).total_byte_size
            if size > BYTES_AT_ONCE:
                yield waiting
                waiting, size = [], 0
        if waiting:
            yield waiting

    def _decoder(self, names: Sequence[str], groups: Sequence[int], coded: Sequence[str]) -> pq.ParquetFile:
        """Return the file as Arrow reads it: repeated texts as numbers, so that they can be counted first."""
        chunks = (chunk for group in groups for chunk, _ in self._chunks(names, group))
        texts = {chunk.path_in_schema for chunk in chunks if repeats(chunk)}
        options = {"read_dictionary": [*texts.union(coded)], "pre_buffer": self._far}
        return pq.ParquetFile(self._file, metadata=self.footer, **options)

    def _decoded(self, table: pa.Table, names: Sequence[str], coded: Sequence[str]) -> pa.Table:
        texts = sum(_text_bytes(chunk) for column in table.columns for chunk in column.chunks)
        self._check_unpacked(texts, len(table))
        kinds = {name: table.schema.field(name).type for name in names}
        kinds |= {name: _plain(self.schema.field(name).type) for name in names if name not in coded}
        return table.select(names).cast(pa.schema(kinds, metadata=table.schema.metadata))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what Arrow raises for bad files into an `IntegrityError`."""
        try:
            yield
        except (ShiftdataError, FileNotFoundError):
            raise
        except (
            pa.ArrowException,
            OSError,
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            OverflowError,
        ) as error:
            raise UnreadableError(f"{self.name} cannot be read as Parquet ({error})") from error


def read_parquet(
    source: Source,
    columns: Sequence[str] | None = None,
    *,
    name: str = "",
    schema: pa.Schema | None = None,
    rows: int | None = None,
    most_rows: int | None = None,
    coded: Sequence[str] = (),
) -> pa.Table:
    """Read columns of a file: those of a `schema` with its types, `rows` of them or at most `most_rows`."""
    with ParquetReader(source, name) as file:
        if rows is not None and file.rows != rows:
            raise IntegrityError(f"{file.name} has {file.rows:,} rows, the manifest says {rows:,}")
        table = file.read(columns if schema is None else schema.names, coded=coded, most_rows=most_rows)
        for field in schema or ():
            if table.schema.field(field.name).type != _plain(field.type):
                raise IntegrityError(f"{file.name} has no column {field.name} of {field.type}")
        return table


def read_footer(source: Source, name: str = "") -> pq.FileMetaData:
    """Read the footer of a file."""
    with ParquetReader(source, name) as file:
        return file.footer


def plain_texts(rows: pa.Table, coded: Sequence[str] = ()) -> pa.Table:
    """Return rows whose dictionaries, but for those of `coded`, are texts again, as filters compare them."""
    kinds = {field.name: field.type for field in rows.schema}
    kinds |= {name: _plain(kind) for name, kind in kinds.items() if name not in coded}
    return rows.cast(pa.schema(kinds, metadata=rows.schema.metadata))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _text_bytes(values: pa.Array) -> int:
    """Return the bytes of all texts with a dictionary, those in lists and structs included."""
    if pa.types.is_dictionary(values.type):
        if values.type.value_type not in TEXTS:
            return 0
        return pc.sum(pc.binary_length(values.dictionary).take(values.indices)).as_py() or 0
    if pa.types.is_struct(values.type):
        return sum(map(_text_bytes, values.flatten()))
    if pa.types.is_map(values.type):
        return _text_bytes(values.keys) + _text_bytes(values.items)
    return _text_bytes(values.flatten()) if values.type.num_fields else 0


def text_lengths(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the bytes of each text of a column, 0 for none; dictionaries are not decoded."""
    if pa.types.is_dictionary(column.type):
        parts = [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
        column = pa.chunked_array([part.cast(pa.int64()) for part in parts], pa.int64())
    else:
        column = pc.binary_length(column)
    lengths: NDArray[np.int64] = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return lengths


def _opened(source: Source) -> Any:
    if isinstance(source, Path):
        if not stat.S_ISREG(os.stat(source).st_mode):  # a pipe may never end
            raise IntegrityError(f"{source.name} is not a regular file")
        return pa.OSFile(str(source))
    return pa.BufferReader(source) if isinstance(source, bytes | pa.Buffer) else source


def _footer(file: Any, size: int, name: str) -> pq.FileMetaData:
    """Read the footer from the last bytes, of which pyarrow would read at least 64 KiB."""
    file.seek(max(0, size - TAIL))
    tail = file.read()
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if len(tail) < min(length, size):
        check("parquet_footer", length, name, f"has a footer of {length:,} bytes")
        file.seek(max(0, size - length))
        tail = file.read()
    return pq.read_metadata(pa.BufferReader(tail))


def _leaf_count(kind: pa.DataType) -> int:
    return sum(_leaf_count(kind.field(number).type) for number in range(kind.num_fields)) or 1


def _width(kind: pa.DataType) -> int:
    """Return the bytes of a value without those of its text, which has an offset; 0 if it is nested."""
    kind = _plain(kind)
    if kind.num_fields:
        return 0
    return 8 if kind in TEXTS or pa.types.is_null(kind) else -(-kind.bit_width // 8)
