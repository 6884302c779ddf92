"""Read Parquet files that may be damaged: as much as can be read, and what cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.verifying.problem import Problem


@dataclass(frozen=True)
class Part:
    """Some rows of a file from `first` on; where they cannot be read, `table` is None and `why` says why."""

    first: int
    count: int
    table: pa.Table | None
    why: str = ""


def footer(path: str, file: Path, rows: int | None) -> tuple[pq.FileMetaData | None, list[Problem]]:
    """What the footer says of a file, and whether it holds so many rows."""
    try:
        read = pq.read_metadata(file)
        read.schema.to_arrow_schema()
    except Exception as error:  # Arrow raises many kinds for bad files
        what = f"is no readable Parquet file ({first_line(error)}): fetch or build it again"
        return None, [Problem(path=path, what=what, kind="footer")]
    if rows is None or read.num_rows == rows:
        return read, []
    what = f"holds {read.num_rows} rows, the manifest says {rows}"
    return read, [Problem(path=path, what=what, kind="rows")]


def schema_problems(path: str, found: pa.Schema, expected: pa.Schema) -> list[Problem]:
    """Columns that are missing, not ours, or of another type or order, and categories of other names."""
    faults = []
    lacking = [name for name in expected.names if name not in found.names]
    alien = [name for name in found.names if name not in expected.names]
    if lacking:
        faults.append(f"lacks the column {', '.join(lacking)}")
    if alien:
        faults.append(f"has the column {', '.join(alien)}, which a shiftdata file has not")
    if not lacking and not alien and found.names != expected.names:
        faults.append(f"has the columns in another order than {', '.join(expected.names)}")
    for name in set(expected.names) - set(lacking):
        given, wanted = found.field(name).type, expected.field(name).type
        if given != wanted:
            faults.append(f"has the column {name} as {given} and not as {wanted}")
    told, wanted = _features(found), _features(expected)
    other = [name for name, feature in wanted.items() if told.get(name) != feature]
    if other:
        faults.append(f"does not give `datasets` the features of {', '.join(other)}, such as class names")
    return [Problem(path=path, what=what, kind="columns") for what in sorted(faults)]


def parts(file: Path, read: pq.FileMetaData, schema: pa.Schema, batch_rows: int) -> Iterator[Part]:
    """The rows of a file, a stretch of a row group at a time, as the columns and types of `schema`."""
    first = 0
    with pq.ParquetFile(file, metadata=read) as opened:
        for group in range(read.num_row_groups):
            end = first + read.row_group(group).num_rows
            try:
                for batch in opened.iter_batches(batch_rows, [group], schema.names, use_threads=False):
                    table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
                    table.validate(full=True)
                    yield Part(first, len(table), table)
                    first += len(table)
                why = f"row group {group} ends early"
            except Exception as error:  # Arrow raises many kinds for bad pages
                why = first_line(error)
            if first < end:
                yield Part(first, end - first, None, why)
            first = end


def differing(one: pa.ChunkedArray, other: pa.ChunkedArray) -> NDArray[np.int64]:
    """The positions at which two columns of one type differ."""
    if one.equals(other):
        return np.empty(0, dtype=np.int64)
    empty = pc.and_(pc.is_null(one), pc.is_null(other))
    same = pc.or_(empty, pc.fill_null(pc.equal(one, other), False))
    found: NDArray[np.int64] = np.flatnonzero(~same.to_numpy())
    return found


def picked(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Some rows of a table; such as stand together are not copied."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    return table.take(pa.array(rows, pa.int64()))


def integers(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The numbers of a column, 0 where there is none, and where that is."""
    return column.fill_null(0).to_numpy().astype(np.int64), column.is_null().to_numpy()


def first_line(error: Exception) -> str:
    """An error in one line."""
    return f"{error}".partition("\n")[0] or type(error).__name__


def _features(schema: pa.Schema) -> Mapping[str, Any]:
    """The features that `datasets` takes from a file."""
    try:
        told = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: _names(feature) for name, feature in told.items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _names(feature: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    """A feature without what is written differently by versions of `datasets`."""
    return feature["_type"], feature.get("names", ())
