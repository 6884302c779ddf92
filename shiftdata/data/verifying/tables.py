"""Read the Parquet files of a dataset, and check their columns, their number of rows and their statistics."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.data.format.bounds import flat_table, texts_in, unpacked_fault
from shiftdata.data.format.page_headers import pages_fault
from shiftdata.data.format.typed import read_json
from shiftdata.data.verifying.files import LocalFile, Problem, first_line
from shiftdata.errors import IntegrityError

BATCH_ROWS = 20_000
BYTES_AT_ONCE = 8 << 20


def table_problems(local: LocalFile, schema: pa.Schema) -> tuple[bool, list[Problem]]:
    """Return True if the rows of an intact file can be read by a schema, and the faults of its columns."""
    if local.file is None:
        return False, []
    try:
        footer = pq.read_metadata(local.file)
        columns = footer.schema.to_arrow_schema()
        fault = unpacked_fault(footer, local.file.stat().st_size)
        with local.file.open("rb") as stream:
            fault = fault or pages_fault(stream, footer)
    except Exception as error:  # Arrow raises many kinds for bad files
        return False, [unreadable(local.path, error)]
    if fault:
        return False, [Problem(local.path, fault, "unreadable")]
    faults = sorted(_column_faults(columns, schema))
    readable, features = not faults, _features(columns)
    wrong = [name for name, feature in _features(schema).items() if features.get(name) != feature]
    if wrong:
        faults.append(f"does not give `datasets` the features of {', '.join(wrong)}, such as class names")
    if local.rows is not None and footer.num_rows != local.rows:
        faults.append(f"has {footer.num_rows} rows, the manifest says {local.rows}")
    return readable, [Problem(local.path, text, "columns") for text in faults]


def read_table(
    local: LocalFile, schema: pa.Schema, *, without: str = "", terms: Sequence[str] = ()
) -> tuple[pa.Table | None, list[Problem]]:
    """Read an intact file without the column `without`, and return its faults; `terms` as dictionaries."""
    readable, problems = table_problems(local, schema)
    if not readable or local.file is None:
        return None, problems
    names = [name for name in schema.names if name != without]
    try:
        size = local.file.stat().st_size
        with pq.ParquetFile(local.file, read_dictionary=texts_in(schema)) as file:
            table = flat_table(file, names, size=size, most_rows=sys.maxsize, coded=terms)
        table.validate(full=True)
    except IntegrityError as error:
        return None, [*problems, Problem(local.path, str(error), "unreadable")]
    except Exception as error:  # Arrow raises many kinds for bad pages
        return None, [*problems, unreadable(local.path, error)]
    return table.replace_schema_metadata(None), problems


def plain_texts(rows: pa.Table) -> pa.Table:
    """Return rows whose dictionaries are texts again, as filters compare them."""
    types = [getattr(kind, "value_type", kind) for kind in rows.schema.types]
    return rows.cast(pa.schema(zip(rows.schema.names, types, strict=True)))


def unreadable(path: str, error: Exception) -> Problem:
    """Return the problem of a file that has its hash, and cannot be read."""
    text = f"is not a readable Parquet file ({first_line(error)}): build the dataset again"
    return Problem(path, text, "unreadable")


def _column_faults(columns: pa.Schema, expected: pa.Schema) -> Iterator[str]:
    missing = [name for name in expected.names if name not in columns.names]
    extra = [name for name in columns.names if name not in expected.names]
    if missing:
        yield f"lacks the column {', '.join(missing)}"
    if extra:
        yield f"has the column {', '.join(extra)}, which a shiftdata file does not have"
    if not missing and not extra and columns.names != expected.names:
        yield f"has the columns in another order than {', '.join(expected.names)}"
    for name in set(expected.names) - set(missing):
        given, wanted = columns.field(name).type, expected.field(name).type
        if given != wanted:
            yield f"has the column {name} as {given} and not as {wanted}"


def batches(file: pq.ParquetFile, groups: Iterable[int], count: int) -> Iterator[pa.Table]:
    """Yield the rows of row groups, a few at a time; read in one call, all of them would stay in memory."""
    waiting: list[int] = []
    size, last = 0, file.num_row_groups - 1
    for group in groups:
        waiting.append(group)
        size += file.metadata.row_group(group).total_byte_size
        if size > BYTES_AT_ONCE or group == last:
            for batch in file.iter_batches(count, waiting, use_threads=False):
                yield pa.Table.from_batches([batch])
            waiting, size = [], 0


class RowsInOrder:
    """The rows of a file from `first` on, a few at a time."""

    def __init__(self, file: Path, first: int) -> None:
        opened = pq.ParquetFile(file)
        counts = [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]
        ends = np.cumsum([0, *counts])
        group = int(np.searchsorted(ends, first, side="right")) - 1
        self._batches = batches(opened, range(group, len(counts)), BATCH_ROWS)
        self._left = opened.schema_arrow.empty_table()
        self.take(first - int(ends[group]))

    def take(self, count: int) -> pa.Table:
        """Return the next rows; fewer at the end of the file."""
        while len(self._left) < count and (batch := next(self._batches, None)) is not None:
            self._left = pa.concat_tables([self._left, batch])
        rows, self._left = self._left.slice(0, count), self._left.slice(count)
        return rows


def differing(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the positions at which two columns of one type differ."""
    if left.equals(right):
        return np.empty(0, dtype=np.int64)
    empty = pc.and_(pc.is_null(left), pc.is_null(right))
    same = pc.or_(empty, pc.fill_null(pc.equal(left, right), False))
    positions: NDArray[np.int64] = np.flatnonzero(~same.to_numpy())
    return positions


def integers(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the numbers of a column, 0 for null, and the mask of nulls."""
    return column.fill_null(0).to_numpy().astype(np.int64), column.is_null().to_numpy()


def _features(schema: pa.Schema) -> Mapping[str, tuple[str, Sequence[str]]]:
    """Return the features that `datasets` takes from a file, without what its versions write differently."""
    try:
        features = read_json((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: (feature["_type"], feature.get("names", ())) for name, feature in features.items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def statistics_problems(path: str, file: Path, rows: pa.Table) -> Iterator[Problem]:
    """Check the least, greatest and missing values that each row group states against its `rows`, in order.

    Readers leave out row groups by them, so false ones hide rows.
    """
    footer = pq.read_metadata(file)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    ends = np.cumsum([group.num_rows for group in groups], dtype=np.int64)
    if not len(ends) or ends[-1] != len(rows):
        return  # another number of rows is a problem of its own
    for number in range(footer.num_columns):
        name = footer.schema.column(number).path
        stated = [group.column(number).statistics for group in groups]
        if name not in rows.column_names or not any(stated):
            continue
        least, greatest, missing = _of_groups(rows[name], ends)
        for group, statistics in enumerate(stated):
            if statistics is not None and not _is_true(
                statistics, least[group], greatest[group], int(missing[group])
            ):
                text = (
                    f"states of {name} in row group {group} that it is {_stated(statistics)}; it is from "
                    f"{least[group]!r} to {greatest[group]!r}, {missing[group]} missing: readers that filter "
                    "by it would lose rows; fetch it again, or build the dataset again"
                )
                yield Problem(path, text, "statistics")


def _of_groups(column: pa.ChunkedArray, ends: NDArray[np.int64]) -> tuple[list[Any], list[Any], Any]:
    """Return the least and the greatest value of each row group, None for none, and the number of nulls."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values = pc.unique(column).drop_null()
    values = values.take(pc.sort_indices(values))
    # Ranks instead of values, so that texts take one pass of `reduceat` too.
    rank = pc.index_in(column, value_set=values).combine_chunks()
    absent = rank.is_null().to_numpy(zero_copy_only=False)
    number = rank.fill_null(0).to_numpy().astype(np.int64)
    starts = np.r_[0, ends[:-1]]
    low = np.minimum.reduceat(np.where(absent, len(values), number), starts)
    high = np.maximum.reduceat(np.where(absent, -1, number), starts)
    ordered: list[Any] = [*values.to_pylist(), None]
    missing = np.add.reduceat(absent.astype(np.int64), starts)
    return [ordered[at] for at in low], [ordered[at] for at in high], missing


def _is_true(statistics: Any, least: Any, greatest: Any, missing: int) -> bool:
    if statistics.has_null_count and statistics.null_count != missing:
        return False
    if not statistics.has_min_max or least is None:
        return True
    try:
        return bool(statistics.min <= least and greatest <= statistics.max)
    except TypeError:  # of another type
        return False


def _stated(statistics: Any) -> str:
    text = f"from {statistics.min!r} to {statistics.max!r}" if statistics.has_min_max else "of any value"
    return f"{text}, {statistics.null_count} missing" if statistics.has_null_count else text
