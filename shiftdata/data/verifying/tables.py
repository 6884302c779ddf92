"""Read the Parquet files of a dataset, and check that each has the columns and rows that it must have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.data.format.bounds import texts_fault, unpacked_fault
from shiftdata.data.format.page_headers import pages_fault
from shiftdata.data.format.typed import read_json
from shiftdata.data.verifying.files import LocalFile, Problem, first_line

BATCH_ROWS = 20_000
BYTES_AT_ONCE = 8 << 20


def table_problems(local: LocalFile, schema: pa.Schema) -> tuple[bool, list[Problem]]:
    """Whether the rows of an intact file can be read by a schema, and what is wrong with its columns."""
    if local.file is None:
        return False, []
    try:
        read = pq.read_metadata(local.file)
        found = read.schema.to_arrow_schema()
        fault = unpacked_fault(read, local.file.stat().st_size)
        with local.file.open("rb") as stream:
            fault = fault or pages_fault(stream, read)
    except Exception as error:  # Arrow raises many kinds for bad files
        return False, [unreadable(local.path, error)]
    if fault:
        return False, [Problem(local.path, fault, "unreadable")]
    faults = sorted(_column_faults(found, schema))
    readable = not faults
    other = [name for name, feature in _features(schema).items() if _features(found).get(name) != feature]
    if other:
        faults.append(f"does not give `datasets` the features of {', '.join(other)}, such as class names")
    if local.rows is not None and read.num_rows != local.rows:
        faults.append(f"has {read.num_rows} rows, the manifest says {local.rows}")
    return readable, [Problem(local.path, what, "columns") for what in faults]


def read_table(
    local: LocalFile, schema: pa.Schema, *, without: str = "", terms: Sequence[str] = ()
) -> tuple[pa.Table | None, list[Problem]]:
    """The rows of an intact file, but for one column, and what is wrong with it; `terms` as dictionaries."""
    readable, problems = table_problems(local, schema)
    if not readable:
        return None, problems
    try:
        texts = [field.name for field in schema if field.type == pa.string()]
        with pq.ParquetFile(local.file, read_dictionary=texts) as file:
            table = file.read([name for name in schema.names if name != without])
        if fault := texts_fault(table, Path(local.file or "").stat().st_size):
            return None, [*problems, Problem(local.path, fault, "unreadable")]
        table = plain_texts(table, besides=terms)
        table.validate(full=True)
    except Exception as error:  # Arrow raises many kinds for bad pages
        return None, [*problems, unreadable(local.path, error)]
    return table.replace_schema_metadata(None), problems


def plain_texts(rows: pa.Table, besides: Sequence[str] = ()) -> pa.Table:
    """Rows whose dictionaries are texts again, as filters compare them; but for those of some columns."""
    types = {
        of.name: pa.string() if pa.types.is_dictionary(of.type) and of.name not in besides else of.type
        for of in rows.schema
    }
    return rows.cast(pa.schema(types.items()))


def unreadable(path: str, error: Exception) -> Problem:
    """The problem of a file that is what the manifest lists, and still not Parquet."""
    what = f"is not a readable Parquet file ({first_line(error)}): build the dataset again"
    return Problem(path, what, "unreadable")


def _column_faults(found: pa.Schema, expected: pa.Schema) -> Iterator[str]:
    missing = [name for name in expected.names if name not in found.names]
    extra = [name for name in found.names if name not in expected.names]
    if missing:
        yield f"lacks the column {', '.join(missing)}"
    if extra:
        yield f"has the column {', '.join(extra)}, which a shiftdata file does not have"
    if not missing and not extra and found.names != expected.names:
        yield f"has the columns in another order than {', '.join(expected.names)}"
    for name in set(expected.names) - set(missing):
        given, wanted = found.field(name).type, expected.field(name).type
        if given != wanted:
            yield f"has the column {name} as {given} and not as {wanted}"


def batches(file: pq.ParquetFile, groups: Iterable[int], count: int) -> Iterator[pa.Table]:
    """The rows of some row groups, a few at a time; asked for together, all would stay in memory."""
    some: list[int] = []
    size = 0
    for group in chain(groups, [-1]):
        add = file.metadata.row_group(group).total_byte_size if group >= 0 else BYTES_AT_ONCE
        if some and size + add > BYTES_AT_ONCE:
            for batch in file.iter_batches(count, some, use_threads=False):
                yield pa.Table.from_batches([batch])
            some, size = [], 0
        some.append(group)
        size += add


class RowsInOrder:
    """The rows of a file from one on, a few at a time."""

    def __init__(self, file: Path, first: int) -> None:
        opened = pq.ParquetFile(file)
        counts = [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]
        ends = np.cumsum([0, *counts])
        group = int(np.searchsorted(ends, first, side="right")) - 1
        self._batches = batches(opened, range(group, len(counts)), BATCH_ROWS)
        self._left = opened.schema_arrow.empty_table()
        self.take(first - int(ends[group]))

    def take(self, count: int) -> pa.Table:
        """The next rows; fewer at the end of the file."""
        while len(self._left) < count and (batch := next(self._batches, None)) is not None:
            self._left = pa.concat_tables([self._left, batch])
        rows, self._left = self._left.slice(0, count), self._left.slice(count)
        return rows


def differing(one: pa.ChunkedArray, other: pa.ChunkedArray) -> NDArray[np.int64]:
    """The positions at which two columns of one type differ."""
    if one.equals(other):
        return np.empty(0, dtype=np.int64)
    empty = pc.and_(pc.is_null(one), pc.is_null(other))
    same = pc.or_(empty, pc.fill_null(pc.equal(one, other), False))
    found: NDArray[np.int64] = np.flatnonzero(~same.to_numpy())
    return found


def integers(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The numbers of a column, 0 where there is none, and where that is."""
    return column.fill_null(0).to_numpy().astype(np.int64), column.is_null().to_numpy()


def _features(schema: pa.Schema) -> Mapping[str, tuple[str, Sequence[str]]]:
    """The features that `datasets` takes from a file, without what its versions write differently."""
    try:
        features = read_json((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: (feature["_type"], feature.get("names", ())) for name, feature in features.items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def statistics_problems(path: str, file: Path, rows: pa.Table) -> Iterator[Problem]:
    """Row groups whose least, greatest or missing values are not those of their rows, given in order."""
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    ends = np.cumsum([group.num_rows for group in groups], dtype=np.int64)
    if not len(ends) or ends[-1] != len(rows):
        return  # other rows are a problem of their own
    for number in range(metadata.num_columns):
        name = metadata.schema.column(number).path
        if name not in rows.column_names:
            continue
        stated = [group.column(number).statistics for group in groups]
        if not any(stated):
            continue
        least, greatest, missing = _of_groups(rows[name], ends)
        for group, found in enumerate(stated):
            if found is not None and not _is_true(found, least[group], greatest[group], int(missing[group])):
                what = (
                    f"says of {name} in row group {group} that it is {_said(found)}; it is from "
                    f"{least[group]!r} to {greatest[group]!r}, {missing[group]} missing: readers that filter "
                    "by it would lose rows; fetch it again, or build the dataset again"
                )
                yield Problem(path, what, "statistics")


def _of_groups(
    column: pa.ChunkedArray, ends: NDArray[np.int64]
) -> tuple[list[Any], list[Any], NDArray[np.int64]]:
    """The least and greatest value of each row group, None where it has none, and how many are missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values = pc.unique(column).drop_null()
    values = values.take(pc.sort_indices(values))
    # Numbers in the place of values, ordered as they are: one pass for texts, too.
    rank = pc.index_in(column, value_set=values).combine_chunks()
    absent = rank.is_null().to_numpy(zero_copy_only=False)
    number = rank.fill_null(0).to_numpy().astype(np.int64)
    starts = np.r_[0, ends[:-1]]
    low = np.minimum.reduceat(np.where(absent, len(values), number), starts)
    high = np.maximum.reduceat(np.where(absent, -1, number), starts)
    texts: list[Any] = [*values.to_pylist(), None]
    missing = np.add.reduceat(absent.astype(np.int64), starts)
    return [texts[one] for one in low], [texts[one] for one in high], missing


def _is_true(found: Any, least: Any, greatest: Any, missing: int) -> bool:
    if found.has_null_count and found.null_count != missing:
        return False
    if not found.has_min_max or least is None:
        return True
    try:
        return bool(found.min <= least and greatest <= found.max)
    except TypeError:  # of another type
        return False


def _said(found: Any) -> str:
    said = f"from {found.min!r} to {found.max!r}" if found.has_min_max else "of any value"
    return f"{said}, {found.null_count} missing" if found.has_null_count else said
