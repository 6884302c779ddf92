"""Tasks as files: which keys are in which set, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.errors import InputError
from shiftdata.metadata import Metadata
from shiftdata.stable import content_hash

if TYPE_CHECKING:
    from shiftdata.tasks.sets import Indices, RowSet


def frozen_table(metadata: Metadata, sets: Mapping[str, RowSet]) -> pa.Table:
    """Each set in the order of its keys: key, split (the set's name), count."""
    parts = []
    for name, rows in sets.items():
        counts = np.ones(len(rows.indices), np.int64) if rows.counts is None else rows.counts
        keys = metadata.table["key"].take(pa.array(rows.indices))
        columns = {"key": keys, "split": [name] * len(keys), "count": pa.array(counts, pa.int32())}
        parts.append(pa.table(columns).sort_by("key"))
    return pa.concat_tables(parts)


def read_frozen(metadata: Metadata, path: Path) -> dict[str, tuple[Indices, Indices | None]]:
    """The rows of each set of a frozen task, and how often each was drawn where that is not once."""
    try:
        table = pq.read_table(path, columns=["key", "split", "count"])
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{path} is not a frozen task with the columns key, split, count: {error}"
        ) from error
    rows = pc.index_in(table["key"], value_set=metadata.table["key"].combine_chunks())
    if rows.null_count:
        key = table["key"].filter(rows.is_null())[0].as_py()
        raise InputError(
            f"{rows.null_count} keys of {path} are not in {metadata.name}, such as {key!r}: "
            "give the base that the task was frozen from"
        )
    sets: dict[str, tuple[Indices, Indices | None]] = {}
    for name in pc.unique(table["split"]).to_pylist():
        mine = pc.equal(table["split"], name)
        indices = rows.filter(mine).to_numpy().astype(np.int64)
        counts = table["count"].filter(mine).to_numpy().astype(np.int64)
        order = np.argsort(indices)
        sets[name] = (indices[order], counts[order] if (counts != 1).any() else None)
    return sets


def frozen_id(table: pa.Table) -> str:
    """The hash of a frozen task: of its sets, keys and counts."""
    columns = (table[name].to_pylist() for name in ("split", "key", "count"))
    return content_hash("\n".join("\t".join(map(str, row)) for row in zip(*columns, strict=True)))
