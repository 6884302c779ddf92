"""CSV files of raw datasets: some of their columns, as Arrow has them."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from builders.albums.folder import ENDINGS
from builders.raw.album import Odd
from builders.raw.tree import Tree
from shiftdata.errors import InputError

#: Larger than any row: one that lies in two blocks cannot be read.
BLOCK = 1 << 24
#: How files write that a number is not known.
UNKNOWN = ("", "nan", "na", "n.a.", "null", "none")
ROWS = 10_000  # that are Python objects at a time
FEW = 8  # columns that a message names


def file_named(tree: Tree, files: Mapping[str, str], name: str, says: str) -> str:
    """The path of a file that must be there; `files` are paths by name, as `by_name` gives them."""
    if name not in files:
        raise InputError(f"{tree.place} has no {name}, which says {says}: put it there, packed or unpacked")
    return files[name]


def table_in(tree: Tree, file: str, names: Sequence[str]) -> pa.Table:
    """Some columns of a CSV file, as texts; a quoted cell may have several lines."""
    data = _unpacked(tree, file)
    try:
        header = next(csv.reader([data[: data.find(b"\n") + 1 or None].decode("utf-8-sig")]), [])
        if lacking := [name for name in names if name not in header]:
            shown = ", ".join(header[:FEW]) + (", .." if len(header) > FEW else "")
            raise InputError(
                f"{file} in {tree.place} has no column {' and '.join(lacking)}; it begins with the columns "
                f"{shown or 'none'}: it is another file, or another version"
            )
        return arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(block_size=BLOCK, use_threads=False),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(names), column_types=dict.fromkeys(names, pa.large_string())
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{file} in {tree.place} is not a whole CSV file ({error}): get it again") from error


def rows_of(table: pa.Table) -> Iterator[tuple[str, ...]]:
    """The rows of a table of texts, of which only some are in memory as Python has them."""
    for batch in table.to_batches(ROWS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def numbers(tree: Tree, file: str, table: pa.Table, name: str, *, whole: bool = False) -> pa.ChunkedArray:
    """A column as numbers, or as whole ones, null where a cell is blank or its number is not known."""
    cells = pc.utf8_trim_whitespace(table[name])
    unknown = pc.is_in(pc.utf8_lower(cells), pa.array(UNKNOWN, pa.large_string()))
    try:
        found = pc.if_else(unknown, None, cells).cast(pa.float64())
        return found.cast(pa.int64()) if whole else found
    except pa.ArrowInvalid as error:
        raise InputError(
            f"the column {name} of {file} in {tree.place} has a cell that is not a {'whole ' * whole}number "
            f"({error}): it is another file, or another version"
        ) from error


def unlisted(files: Mapping[str, str], listed: Collection[str], table: str) -> Iterator[Odd]:
    """The pictures that no row of a table names; `files` are paths by name."""
    for name, file in files.items():
        if name.endswith(ENDINGS) and name not in listed:
            yield Odd(file=file, why=f"no row of {table} names it")


def _unpacked(tree: Tree, file: str) -> bytes:
    """The bytes of a file, unpacked where it is one .gz file."""
    data = tree.read(file)
    try:
        return gzip.decompress(data) if file.lower().endswith(".gz") else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file} in {tree.place} is not a whole .gz file ({error}): get it again") from error
