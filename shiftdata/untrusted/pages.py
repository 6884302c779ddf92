"""The headers of the pages of a Parquet file: a reader makes room for a page by what its own header says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, TypeAlias

import pyarrow.parquet as pq

from shiftdata.errors import IntegrityError, LimitError

Fields: TypeAlias = dict[int, "int | Fields"]

#: The longest header that is read: headers contain the texts of statistics.
LONGEST_HEADER, DEEPEST_HEADER = 1 << 20, 8
#: Bytes that contain most headers.
AT_ONCE = 128
#: Numbers of fields: the kind of a page, its sizes, and the headers of data pages with their encoding.
KIND, UNPACKED, PACKED, DATA, DATA_2 = 1, 2, 3, 5, 8
DICTIONARY_PAGE = 2
#: An encoding whose texts begin with a part of the one before: a byte may stand for a megabyte.
PREFIXES = 7


class UnreadableError(IntegrityError):
    """Bytes are no Parquet file, or no whole one."""


def repeats(chunk: pq.ColumnChunkMetaData) -> bool:
    """Return True for texts that are stored once, with the number of one in each row."""
    return chunk.physical_type == "BYTE_ARRAY" and any("DICTIONARY" in kind for kind in chunk.encodings)


def check_pages(file: IO[bytes], chunk: pq.ColumnChunkMetaData, name: str) -> None:
    """Refuse the pages of a column chunk that unpack to more than its footer says."""
    column = f"column {chunk.path_in_schema!r}"
    is_text = chunk.physical_type == "BYTE_ARRAY"
    unpacked = 0
    try:
        for page in _headers(file, chunk):
            unpacked += page[UNPACKED]
            if page.get(KIND) == DICTIONARY_PAGE and is_text and not repeats(chunk):
                raise ValueError("a dictionary that its footer does not name")
            data, again = page.get(DATA, {}), page.get(DATA_2, {})
            if PREFIXES in (data.get(2), again.get(4)):
                given = f"{name} has prefixes of texts (DELTA_BYTE_ARRAY) in its {column}"
                raise LimitError(f"{given}: write it with another encoding, such as PLAIN or a dictionary")
    except LimitError:
        raise
    except (ValueError, AttributeError, TypeError) as error:
        raise UnreadableError(f"{name} has a damaged page in its {column} ({error})") from error
    if unpacked > (stated := chunk.total_uncompressed_size):
        text = f"would unpack its {column} to {unpacked:,} bytes, and {stated:,} by its footer"
        raise LimitError(f"{name} {text}: it is not read, write it again")


def _headers(file: IO[bytes], chunk: pq.ColumnChunkMetaData) -> Iterator[dict[int, Any]]:
    at, dictionary = chunk.data_page_offset or 0, chunk.dictionary_page_offset or 0
    at = dictionary if 0 < dictionary < at else at  # as Arrow finds the first page
    end = at + chunk.total_compressed_size if chunk.num_values else at
    while at < end:
        header = _Header(file, at, min(LONGEST_HEADER, end - at))
        fields: dict[int, Any] = header.struct()
        unpacked, packed = fields.get(UNPACKED, -1), fields.get(PACKED, -1)
        if min(unpacked, packed) < 0:
            raise ValueError(f"a page of {unpacked} and {packed} bytes")
        yield fields
        at += header.length + packed


class _Header:
    """A struct of Thrift's compact protocol, of which whole numbers and structs are read.

    A field is a byte with its type and how far its number is from the last one, then its value; see
    https://github.com/apache/parquet-format.
    """

    def __init__(self, file: IO[bytes], at: int, most: int) -> None:
        file.seek(at)
        self._file, self._most, self.length, self._data = file, most, 0, b""

    def struct(self, depth: int = 0) -> Fields:
        """Read a struct to its end; return its whole numbers and structs by their fields."""
        numbers, field = dict[int, int | Fields](), 0
        if depth > DEEPEST_HEADER:
            raise ValueError("a header of too many levels")
        while head := self._take(1)[0]:
            field = field + (head >> 4) if head >> 4 else self._number()
            value = self._value(head & 15, depth)
            if value is not None:
                numbers[field] = value
        return numbers

    def _value(self, kind: int, depth: int) -> int | Fields | None:
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
                return self.struct(depth + 1)
            case _:
                raise ValueError(f"a field of the unknown type {kind}")
        return None

    def _take(self, count: int) -> bytes:
        start, self.length = self.length, self.length + count
        if len(self._data) < self.length <= self._most:
            self._data += self._file.read(max(AT_ONCE, self.length - len(self._data)))
        if self.length > min(self._most, len(self._data)):
            raise ValueError("it has no end")
        return self._data[start : self.length]

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
