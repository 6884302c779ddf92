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

#: Bytes in which most headers end, and the longest that is read: they contain the texts of statistics.
USUAL, LONGEST = 1 << 12, 1 << 20
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
            except (IndexError, ValueError) as error:
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
        length, sizes = _header(file, at, min(LONGEST, end - at))
        unpacked, packed = sizes[UNPACKED], sizes[PACKED]
        if min(unpacked, packed) < 0:
            raise ValueError(f"a page of {unpacked} and {packed} bytes")
        yield unpacked
        at += length + packed


def _header(file: IO[bytes], at: int, most: int) -> tuple[int, dict[int, int]]:
    """Return the length of the page header at a place, and its numbers by their fields."""
    for size in (min(USUAL, most), most):
        file.seek(at)
        fields = _Fields(file.read(size))
        try:
            numbers = fields.struct()
            if {UNPACKED, PACKED} <= numbers.keys():
                return fields.at, numbers
            raise ValueError("a page without a size")
        except IndexError:
            if size == most:
                raise
    raise AssertionError  # not reached: the last size is `most`


class _Fields:
    """A struct of Thrift's compact protocol, of which whole numbers are read and all else is skipped."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Read a struct to its end; return its whole numbers."""
        numbers, field = dict[int, int](), 0
        if depth > DEEPEST:
            raise ValueError("a header of too many levels")
        while head := self._byte():
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
                self._skip(1 if kind == 3 else 8)
            case 8:
                self._skip(self._varint())
            case 9 | 10:
                head = self._byte()
                for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                    self._skip(1) if head & 15 in (1, 2) else self._value(head & 15, depth)
            case 12:
                self.struct(depth + 1)
            case _:
                raise ValueError(f"a field of the unknown type {kind}")
        return None

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError("it has no end")

    def _varint(self) -> int:
        result, shift = 0, 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result
            if shift > 63:
                raise ValueError("a number of too many bytes")

    def _number(self) -> int:
        zigzag = self._varint()
        return (zigzag >> 1) ^ -(zigzag & 1)
