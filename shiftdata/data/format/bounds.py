"""Limits on what a Parquet file may unpack to: a few kilobytes can declare gigabytes.

`read_flat` reads plain columns of a file from anywhere: what its footer and page headers declare is compared
with the limits before a page is read, and the unpacked bytes are counted batch by batch.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.errors import IntegrityError

#: The limit of bytes in memory for each byte of a file, and the limit of any file, however small.
TIMES, ALWAYS = 100, 256 << 20
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
#: Columns of a flat table; its rows, and bytes of them, that are decoded at once.
MOST_COLUMNS, ROWS_AT_ONCE, BYTES_AT_ONCE = 30_000, 1 << 16, 16 << 20


def unpacked_fault(footer: pq.FileMetaData, size: int) -> str | None:
    """Return the reason not to read a file of `size` bytes, by its footer."""
    unpacked = _declared_bytes(footer)
    if unpacked > max(TIMES * size, ALWAYS) or footer.num_rows > size:
        return f"would unpack {size:,} bytes to {footer.num_rows:,} rows, {unpacked:,} bytes: it is not read"
    return None


def _declared_bytes(footer: pq.FileMetaData) -> int:
    return sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))


def read_bounded(file: Path, schema: pa.Schema, rows: int | None) -> pa.Table:
    """Read the columns of a schema; other columns or rows, or too many unpacked bytes, are refused."""
    table = read_flat(file, schema.names, most_rows=sys.maxsize if rows is None else rows)
    if rows is not None and len(table) != rows:
        raise IntegrityError(f"{file.name} has {len(table):,} rows, the manifest says {rows:,}")
    for field in schema:
        if table.schema.field(field.name).type != field.type:
            raise IntegrityError(f"{file.name} has no column {field.name} of {field.type}")
    return table


def read_flat(file: Path, columns: Sequence[str], *, most_rows: int) -> pa.Table:
    """Read plain columns of a file from anywhere; one that unpacks to too much is an `IntegrityError`."""
    try:
        with file.open("rb") as stream:
            return flat_rows(stream, columns, most_rows=most_rows)
    except (pa.ArrowException, OSError) as error:
        raise IntegrityError(f"{file.name} cannot be read as Parquet ({error})") from error
    except IntegrityError as error:
        raise IntegrityError(f"{file.name} {error}") from error


def flat_rows(
    stream: BinaryIO, columns: Sequence[str], *, most_rows: int = sys.maxsize, coded: Sequence[str] = ()
) -> pa.Table:
    """Read plain columns of an open file from anywhere, batch by batch; texts are decoded but for `coded`.

    A text that is in the file once may be that of every row: it is counted before it is decoded.
    """
    footer = pq.read_metadata(stream)
    if fault := pages_fault(stream, footer):
        raise IntegrityError(fault)
    size, schema = stream.seek(0, io.SEEK_END), footer.schema.to_arrow_schema()
    if fault := _column_fault(schema, columns):
        raise IntegrityError(fault)
    width = _width(schema, columns)

    def check(rows: int, unpacked: int) -> None:
        """Refuse rows and bytes above the limits, as the footer declares them and as they are counted."""
        if rows > most_rows:
            given = f"has {rows:,} rows or more in {size:,} bytes"
            raise IntegrityError(f"{given}: at most {most_rows:,} rows are read")
        if unpacked > (most := max(TIMES * size, ALWAYS)):
            given = f"would unpack {size:,} bytes to {rows:,} rows of {unpacked:,} bytes or more"
            raise IntegrityError(f"{given}: at most {most:,} bytes are read")

    check(footer.num_rows, max(_declared_bytes(footer), footer.num_rows * width))
    count = max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE // max(1, width)))
    rows, unpacked = 0, 0
    texts = [field.name for field in schema if field.type in TEXTS]
    with pq.ParquetFile(stream, metadata=footer, read_dictionary=texts) as file:
        tables = [plain_texts(file.schema_arrow.empty_table().select(list(columns)), coded)]
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(count, [group], columns=list(columns), use_threads=False):
                table = pa.Table.from_batches([batch])
                rows += len(table)
                unpacked += len(table) * width
                unpacked += sum(_text_bytes(of) for of in table.columns if pa.types.is_dictionary(of.type))
                check(rows, unpacked)
                tables.append(plain_texts(table.select(list(columns)), coded))
    return pa.concat_tables(tables)


def _column_fault(schema: pa.Schema, columns: Sequence[str]) -> str | None:
    if len(schema) > MOST_COLUMNS:
        return f"has {len(schema):,} columns: give at most {MOST_COLUMNS:,}"
    counts = Counter(schema.names)
    for name in columns:
        if counts[name] != 1:
            return f"has {counts[name]} columns {name!r}: give one"
        if not _is_plain(kind := schema.field(name).type):
            return f"has {kind} in its column {name!r}: give numbers or texts"
    return None


def _width(schema: pa.Schema, columns: Sequence[str]) -> int:
    """Return the bytes of a row without those of its texts, which have an offset each."""
    kinds = [schema.field(name).type for name in columns]
    return sum(8 if _has_offsets(kind) else -(-kind.bit_width // 8) for kind in kinds)


def _is_plain(kind: pa.DataType) -> bool:
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    return fixed or _has_offsets(kind)


def _has_offsets(kind: pa.DataType) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return plain in TEXTS or bool(pa.types.is_null(kind))


def plain_texts(rows: pa.Table, coded: Sequence[str] = ()) -> pa.Table:
    """Return rows whose dictionaries, but for those of `coded`, are texts again, as filters compare them."""
    kinds = {field.name: field.type for field in rows.schema}
    kinds |= {name: getattr(kind, "value_type", kind) for name, kind in kinds.items() if name not in coded}
    return rows.cast(pa.schema(kinds, metadata=rows.schema.metadata))


def read_group(
    file: IO[bytes], footer: pq.FileMetaData, group: int, columns: Sequence[str], size: int
) -> pa.Table:
    """Read columns of a row group of a file of `size` bytes; one that unpacks to far more is refused.

    Texts come as numbers with a dictionary: a file may have one text once, and name it in every row.
    """
    unpacked, most = footer.row_group(group).total_byte_size, max(4 * size, ALWAYS)
    texts = [field.name for field in footer.schema.to_arrow_schema() if field.type in TEXTS]
    if unpacked <= most:
        read = pq.ParquetFile(file, metadata=footer, pre_buffer=True, read_dictionary=texts)
        table = read.read_row_group(group, columns=list(columns))
        unpacked += sum(_text_bytes(table[name]) for name in texts if name in columns)
        if unpacked <= most:
            return table
    raise IntegrityError(f"a row group would unpack to {unpacked:,} bytes: it is not read")


def text_lengths(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the bytes of each text of a column, 0 for none; dictionaries are not decoded."""
    if pa.types.is_dictionary(column.type):
        parts = [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
        column = pa.chunked_array([part.cast(pa.int64()) for part in parts], pa.int64())
    else:
        column = pc.binary_length(column)
    lengths: NDArray[np.int64] = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return lengths


def _text_bytes(column: pa.ChunkedArray) -> int:
    return int(text_lengths(column).sum())


#: The longest header that is read: headers contain the texts of statistics.
LONGEST_HEADER = 1 << 20
UNPACKED, PACKED = 2, 3  # numbers of the fields with the sizes of a page
DEEPEST_HEADER = 8


def pages_fault(file: IO[bytes], footer: pq.FileMetaData) -> str | None:
    """Return the reason not to read the pages of an open file: they unpack to more than its footer says.

    A reader makes room for a page by the size in its own header, whatever the footer says.

    A header that cannot be read is an `IntegrityError`.
    """
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            chunk = footer.row_group(group).column(number)
            try:
                unpacked = sum(_page_sizes(file, chunk))
            except ValueError as error:
                damage = f"has a damaged page in its column {chunk.path_in_schema!r} ({error})"
                raise IntegrityError(damage) from error
            if unpacked > chunk.total_uncompressed_size:
                stated = f"{chunk.total_uncompressed_size:,} by its footer: it is not read"
                return f"would unpack its column {chunk.path_in_schema!r} to {unpacked:,} bytes, and {stated}"
    return None


def _page_sizes(file: IO[bytes], chunk: pq.ColumnChunkMetaData) -> Iterator[int]:
    """Yield the unpacked bytes of each page of a column chunk."""
    at, dictionary = chunk.data_page_offset or 0, chunk.dictionary_page_offset or 0
    at = dictionary if 0 < dictionary < at else at  # as Arrow finds the first page
    end = at + chunk.total_compressed_size if chunk.num_values else at
    while at < end:
        header = _Header(file, at, min(LONGEST_HEADER, end - at))
        fields = header.struct()
        unpacked, packed = fields.get(UNPACKED, -1), fields.get(PACKED, -1)
        if min(unpacked, packed) < 0:
            raise ValueError(f"a page of {unpacked} and {packed} bytes")
        yield unpacked
        at += header.length + packed


class _Header:
    """A struct of Thrift's compact protocol, of which whole numbers are read and all else is skipped.

    A field is a byte with its type and how far its number is from the last one, then its value; see
    https://github.com/apache/parquet-format.
    """

    def __init__(self, file: IO[bytes], at: int, most: int) -> None:
        file.seek(at)
        self._file, self._most, self.length = file, most, 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Read a struct to its end; return its whole numbers by their fields."""
        numbers, field = dict[int, int](), 0
        if depth > DEEPEST_HEADER:
            raise ValueError("a header of too many levels")
        while head := self._take(1)[0]:
            field = field + (head >> 4) if head >> 4 else self._number()
            value = self._value(head & 15, depth)
            if value is not None:
                numbers[field] = value
        return numbers

    def _value(self, kind: int, depth: int) -> int | None:
        match kind:
            case 1 | 2:  # true and false are types
                return None
            case 4 | 5 | 6:
                return self._number()
            case 3 | 7:
                self._take(1 if kind == 3 else 8)
            case 8:
                self._take(self._varint())
            case 9 | 10:
                head = self._take(1)[0]
                for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                    self._take(1) if head & 15 in (1, 2) else self._value(head & 15, depth)
            case 12:
                self.struct(depth + 1)
            case _:
                raise ValueError(f"a field of the unknown type {kind}")
        return None

    def _take(self, count: int) -> bytes:
        self.length += count
        data = self._file.read(count) if self.length <= self._most else b""
        if len(data) < count:
            raise ValueError("it has no end")
        return data

    def _varint(self) -> int:
        result = 0
        for shift in range(0, 64, 7):
            (byte,) = self._take(1)
            result |= (byte & 127) << shift
            if byte < 128:
                return result
        raise ValueError("a number of too many bytes")

    def _number(self) -> int:
        zigzag = self._varint()
        return (zigzag >> 1) ^ -(zigzag & 1)
