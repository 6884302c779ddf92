"""The unpacked sizes of the pages of a Parquet file, by their own headers: its footer may understate them.

A reader makes room for a page by the size in its header, whatever the footer says. Headers are structs of
Thrift's compact protocol (https://github.com/apache/parquet-format): a byte with the type of a field and how
far its number is from the last one, then its value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import pyarrow.parquet as pq

from shiftdata.errors import IntegrityError

#: The longest header that is read: headers contain the texts of statistics.
LONGEST = 1 << 20
UNPACKED, PACKED = 2, 3  # numbers of the fields with the sizes of a page
DEEPEST = 8


def pages_fault(file: IO[bytes], footer: pq.FileMetaData) -> str | None:
    """Return the reason not to read the pages of an open file: they unpack to more than its footer says.

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
        header = _Header(file, at, min(LONGEST, end - at))
        fields = header.struct()
        unpacked, packed = fields.get(UNPACKED, -1), fields.get(PACKED, -1)
        if min(unpacked, packed) < 0:
            raise ValueError(f"a page of {unpacked} and {packed} bytes")
        yield unpacked
        at += header.length + packed


class _Header:
    """A struct of Thrift's compact protocol, of which whole numbers are read and all else is skipped."""

    def __init__(self, file: IO[bytes], at: int, most: int) -> None:
        file.seek(at)
        self._file, self._most, self.length = file, most, 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Read a struct to its end; return its whole numbers by their fields."""
        numbers, field = dict[int, int](), 0
        if depth > DEEPEST:
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
