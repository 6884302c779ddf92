"""Read columns of a CSV, TSV or Parquet file; what is wrong with the file is said by its line."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from shiftdata.data.format.schema import RESERVED, columns
from shiftdata.errors import InputError, not_found
from shiftdata.untrusted.pages import UnreadableError
from shiftdata.untrusted.parquet import ParquetReader
from shiftdata.untrusted.texts import CsvReader, bounded_lines

ENDINGS = (".csv", ".tsv", ".parquet")
SEPARATORS = (",", ";", "\t", "|")
SEPARATOR_LINE = re.compile(r"sep=.\s*")  # before the header, for spreadsheets

#: What other files begin with.
OTHER_FILES = {
    b"PK\x03\x04": "a spreadsheet or another zip file: save it as CSV",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet: save it as CSV",
    b"\x1f\x8b": "compressed: unpack it",
    b"PAR1": "a Parquet file: let its name end in .parquet",
}
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
LONGEST_NAME = 90  # of a column


@dataclass(frozen=True)
class TableFile:
    """Some columns of a file: of CSV and TSV as texts; `lines` are those in which each row begins."""

    path: Path
    columns: dict[str, pa.ChunkedArray]
    lines: list[int] | None = None

    def place(self, row: int) -> str:
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"


def read_table_file(path: Path, names: Sequence[str] | None, encoding: str | None = None) -> TableFile:
    """Some columns of a table, or all."""
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, names)
    with path.open("rb") as file:
        begin = file.read(4)
    for magic, what in OTHER_FILES.items():
        if begin.startswith(magic):
            raise InputError(f"{path} is {what}")
    used = _encoding(path, encoding, begin)
    try:
        return _read_csv(path, names, used)
    except UnicodeError as error:
        raise _wrong_encoding(path, used) from error


def _read_csv(path: Path, names: Sequence[str] | None, encoding: str) -> TableFile:
    """By Python's reader: at a quote that nobody closes, Arrow's takes all that follows for one text."""
    separator = _separator(path, names, encoding)
    with path.open(newline="", encoding=encoding) as stream:
        reader = CsvReader(_lines(path, stream), path.name, separator)
        begins = reader.line_num + 1
        try:
            header = next(filter(any, reader), None)
            if header is None:
                raise InputError(f"{path} is empty: give it a header and rows")
            places = _places(path, names, header)
            read = [(place, list[str]()) for place in places.values()]
            lines: list[int] = []
            begins = reader.line_num + 1
            for cells in reader:
                if any(cells):  # not an empty line, or one of separators that a spreadsheet leaves
                    if len(cells) != len(header):
                        raise csv.Error(
                            f"it has {len(cells)} cells, and the header {len(header)}. Cells are separated "
                            f"by {separator!r}: put a cell that contains one in quotes"
                        )
                    lines.append(begins)
                    for place, column in read:
                        column.append(cells[place])
                begins = reader.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"{path}, the row that begins in line {begins}: {_explained(error, reader.line_num)}"
            ) from error
    columns = {
        name: pa.chunked_array([cells], pa.large_string())
        for name, (_, cells) in zip(places, read, strict=True)
    }
    return TableFile(path, columns, lines)


def _explained(error: csv.Error, line: int) -> str:
    if "unexpected end of data" in str(error):
        return (
            'a quote that opens in it is never closed. Close it, or double it ("") if it is part of the text'
        )
    if "expected after" in str(error):
        return (
            f"in line {line} a quote ends a cell that goes on. Double a quote within a quoted cell; or the "
            "quote that opened the cell was never closed"
        )
    return str(error)


def _lines(path: Path, stream: TextIO) -> Iterator[str]:
    for number, line in enumerate(bounded_lines(stream, path.name), start=1):
        if "\0" in line:
            raise InputError(f"{path}, line {number}: it has a NUL character, which no text has; take it out")
        yield "\n" if number == 1 and SEPARATOR_LINE.fullmatch(line) else line


def _separator(path: Path, names: Sequence[str] | None, encoding: str) -> str:
    """The one under which the header has most of the wanted columns, else most columns."""
    own = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(newline="", encoding=encoding) as stream:
        first = [line for line in islice(_lines(path, stream), 100) if line.strip()]

    def fits(separator: str) -> tuple[int, int]:
        header = next(CsvReader(first, path.name, separator, strict=False), [])
        return len(set(names or ()) & set(header)), len(header)

    return max((own, *SEPARATORS), key=fits)


def _encoding(path: Path, given: str | None, begin: bytes) -> str:
    if given is None:
        return "utf-16" if begin.startswith(UTF_16) else "utf-8-sig"
    try:
        name = codecs.lookup(given).name
    except LookupError:
        raise InputError(
            f"unknown encoding {given!r} for {path}; common: utf-8, utf-16, cp1252, latin-1"
        ) from None
    data = b"" if name.startswith("utf") else path.read_bytes()
    if not data.isascii():
        with suppress(UnicodeDecodeError):
            data.decode()
            raise InputError(
                f"{path} is in UTF-8, and encoding={given!r} would garble its letters: leave encoding out"
            )
    return "utf-8-sig" if name == "utf-8" else name


def _wrong_encoding(path: Path, used: str) -> InputError:
    """Name the first line that cannot be decoded: only the file's owner knows its encoding."""
    data = path.read_bytes()
    try:
        data.decode(used)
        return InputError(f"{path} changed while it was read: run again")
    except UnicodeError as error:
        at = getattr(error, "start", 0)
    line, name = data.count(b"\n", 0, at) + 1, used.removesuffix("-sig").upper()
    return InputError(
        f"{path} is not in {name}: line {line} has the byte 0x{data[at]:02x}. Name its encoding, such as "
        'RowsAlbum(..., encoding="cp1252"), or save it in UTF-8'
    )


def _read_parquet(path: Path, names: Sequence[str] | None) -> TableFile:
    try:
        with ParquetReader(path) as file:
            header = file.schema.names
            places = _places(path, names, header)
            table = file.read([header[place] for place in places.values()])
    except UnreadableError as error:
        raise InputError(f"{path}: {error}") from error
    return TableFile(path, {name: table[header[place]] for name, place in places.items()})


def column_name(header: str) -> str:
    """Return a valid column name for a header with other characters, or with a name that every dataset uses.

    >>> column_name("Blood Pressure (mm)"), column_name("age"), column_name("2nd"), column_name("split")
    ('Blood_Pressure_mm', 'age', 'c_2nd', 'split_')
    """
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", header).strip("_")[:LONGEST_NAME]
    plain = plain if re.match("[A-Za-z]", plain) else f"c_{plain}"
    return f"{plain}_" if plain in (*columns("nuisance"), *RESERVED) else plain


def _places(path: Path, names: Sequence[str] | None, header: Sequence[str]) -> dict[str, int]:
    """Return the position of each wanted column (or of all): by its header, else by its column name."""
    places = {}
    for name in header if names is None else names:
        at = [place for place, one in enumerate(header) if one == name]
        at = at or [place for place, one in enumerate(header) if column_name(one) == name]
        if not at:
            raise not_found("column", name, header, f"These are the columns of {path}.")
        if len(at) > 1:
            raise InputError(f"{path} has {len(at)} columns named {name!r}: rename all but one")
        places[name] = at[0]
    return places
