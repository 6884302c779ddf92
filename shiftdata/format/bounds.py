"""How much a Parquet file may unpack to: one of a few kilobytes can say that it is gigabytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.errors import IntegrityError

#: What a file may have in memory for each of its bytes, and whatever its size is.
TIMES, ALWAYS = 100, 256 << 20


def unpacked_fault(found: pq.FileMetaData, size: int) -> str | None:
    """Why a file of `size` bytes is not read, by its footer."""
    unpacked = sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))
    most = max(TIMES * size, ALWAYS)
    if unpacked > most or found.num_rows > size:
        return f"would unpack {size:,} bytes to {found.num_rows:,} rows, {unpacked:,} bytes: it is not read"
    return None


def texts_fault(table: pa.Table, size: int) -> str | None:
    """Why the columns that are read as numbers are not decoded: their texts are far more than the file."""
    coded = [name for name in table.column_names if pa.types.is_dictionary(table[name].type)]
    if sum(_decoded(table[name]) for name in coded) <= max(TIMES * size, ALWAYS):
        return None
    return f"would unpack {size:,} bytes to far more: it is not read"


def read_bounded(file: Path, schema: pa.Schema, rows: int | None) -> pa.Table:
    """The columns of a schema; a file without them, with other rows, or that unpacks to too much is an error.

    A text that comes a million times stands in a file once: texts are read as numbers first, and counted.
    """
    size = file.stat().st_size
    try:
        with pq.ParquetFile(file) as opened:
            found = opened.schema_arrow
            fault = unpacked_fault(opened.metadata, size)
            if rows is not None and opened.metadata.num_rows != rows:
                fault = f"has {opened.metadata.num_rows:,} rows, the manifest says {rows:,}"
            for field in schema:
                if field.name not in found.names or found.field(field.name).type != field.type:
                    fault = f"has no column {field.name} of {field.type}"
        if fault is None:
            texts = [one.name for one in schema if one.type in (pa.string(), pa.binary())]
            table = pq.read_table(file, columns=schema.names, read_dictionary=texts)
            fault = texts_fault(table, size)
            if fault is None:
                return table.cast(pa.schema([found.field(name) for name in schema.names], found.metadata))
    except pa.ArrowException as error:
        raise IntegrityError(f"{file.name} cannot be read ({error})") from error
    raise IntegrityError(f"{file.name} {fault}")


def read_group(
    file: IO[bytes], footer: pq.FileMetaData, group: int, columns: Sequence[str], size: int
) -> pa.Table:
    """Columns of a row group of a file of `size` bytes; one that unpacks to far more is an error.

    Texts that a file has once may come as numbers with a dictionary.
    """
    found, most = footer.row_group(group), max(4 * size, ALWAYS)
    leaves = [found.column(number) for number in range(found.num_columns)]
    coded = [
        one.path_in_schema
        for one in leaves
        if one.physical_type == "BYTE_ARRAY"
        and any("DICTIONARY" in encoding for encoding in one.encodings)
        and one.path_in_schema.partition(".")[0] in columns
    ]
    unpacked = found.total_byte_size
    if unpacked <= most:
        read = pq.ParquetFile(file, metadata=footer, pre_buffer=True, read_dictionary=coded)
        table = read.read_row_group(group, columns=list(columns))
        for name in coded:
            column = table[name.partition(".")[0]]
            for field in name.split(".")[1:]:
                column = pc.struct_field(column, field) if pa.types.is_struct(column.type) else column
            unpacked += _decoded(column) if pa.types.is_dictionary(column.type) else 0
        if unpacked <= most:
            return table
    raise IntegrityError(f"a row group would unpack to {unpacked:,} bytes: it is not read")


def text_lengths(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """The bytes of each text of a column, 0 for none; one that is read as numbers is not decoded."""
    if pa.types.is_dictionary(column.type):
        parts = [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
        column = pa.chunked_array([part.cast(pa.int64()) for part in parts], pa.int64())
    else:
        column = pc.binary_length(column)
    lengths: NDArray[np.int64] = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return lengths


def _decoded(column: pa.ChunkedArray) -> int:
    return int(text_lengths(column).sum())
