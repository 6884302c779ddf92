"""Check the statistics of a Parquet file: by them a reader leaves out row groups, so false ones hide rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.data.verifying.problem import Problem

Numbers = NDArray[np.int64]


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


def _of_groups(column: pa.ChunkedArray, ends: Numbers) -> tuple[list[Any], list[Any], Numbers]:
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
