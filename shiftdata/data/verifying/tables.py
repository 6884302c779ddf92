"""Read the Parquet files of a dataset, and check their columns, their number of rows and their statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.data.format.bounds import flat_rows, pages_fault, unpacked_fault
from shiftdata.data.format.typed import read_json
from shiftdata.data.format.written import plain_texts
from shiftdata.data.verifying.files import LocalFile, Problem, first_line
from shiftdata.errors import IntegrityError

BATCH_ROWS = 20_000
BYTES_AT_ONCE = 8 << 20


def table_problems(local: LocalFile, schema: pa.Schema) -> list[Problem]:
    """Return the reasons not to read the rows of an intact file by a schema."""
    if local.file is None:
        return []
    try:
        footer = pq.read_metadata(local.file)
        columns = footer.schema.to_arrow_schema()
        fault = unpacked_fault(footer, local.file.stat().st_size)
        with local.file.open("rb") as stream:
            fault = fault or pages_fault(stream, footer)
    except Exception as error:  # Arrow raises many kinds for bad files
        return [unreadable(local.path, error)]
    features, given, wanted = _features(columns), _columns(columns), _columns(schema)
    if fault is None and given != wanted:
        more, fewer = ", ".join(set(given) - set(wanted)), ", ".join(set(wanted) - set(given))
        fault = f"has other columns than {', '.join(wanted)}: it lacks ({fewer}), and has ({more})"
    wrong = [name for name, feature in _features(schema).items() if features.get(name) != feature]
    if fault is None and wrong:
        fault = f"does not give `datasets` the features of {', '.join(wrong)}, such as class names"
    if fault is None and local.rows not in (None, footer.num_rows):
        fault = f"has {footer.num_rows} rows, the manifest says {local.rows}"
    return [Problem(local.path, fault, "columns")] if fault else []


def _columns(schema: pa.Schema) -> list[str]:
    return [f"{field.name}: {field.type}" for field in schema]


def read_table(
    local: LocalFile, schema: pa.Schema, *, without: str = "", terms: Sequence[str] = ()
) -> tuple[pa.Table | None, list[Problem]]:
    """Read an intact file without the column `without`, or return its faults; `terms` as dictionaries."""
    problems = table_problems(local, schema)
    if local.file is None or problems:
        return None, problems
    names = [name for name in schema.names if name != without]
    try:
        with local.file.open("rb") as stream:
            table = flat_rows(stream, names, coded=terms)
        table.validate(full=True)
    except IntegrityError as error:
        return None, [Problem(local.path, str(error), "unreadable")]
    except Exception as error:  # Arrow raises many kinds for bad pages
        return None, [unreadable(local.path, error)]
    return table.replace_schema_metadata(None), []


def unreadable(path: str, error: Exception) -> Problem:
    """Return the problem of a file that has its hash, and cannot be read."""
    text = f"is not a readable Parquet file ({first_line(error)}): build the dataset again"
    return Problem(path, text, "unreadable")


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
    return np.flatnonzero(~same.to_numpy())


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
    footer, start = pq.read_metadata(file), 0
    for number in range(footer.num_row_groups if footer.num_rows == len(rows) else 0):
        group = footer.row_group(number)
        part = plain_texts(rows.slice(start, group.num_rows))
        start += group.num_rows
        for column in map(group.column, range(group.num_columns)):
            name, stated = column.path_in_schema, column.statistics
            if stated is not None and name in part.column_names and not _is_true(stated, part[name]):
                text = f"has false statistics of {name} in row group {number}: filters by it would lose rows"
                yield Problem(path, f"{text}; fetch it again, or build the dataset again", "statistics")


def _is_true(stated: Any, values: pa.ChunkedArray) -> bool:
    if stated.has_null_count and stated.null_count != values.null_count:
        return False
    least, greatest = pc.min_max(values).as_py().values()
    try:
        return not stated.has_min_max or least is None or stated.min <= least <= greatest <= stated.max
    except TypeError:  # of another type
        return False
