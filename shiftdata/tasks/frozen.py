"""Tasks as files: which keys are in which set, and how often."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.rows import Metadata
from shiftdata.stable import content_hash

if TYPE_CHECKING:
    from shiftdata.tasks import RowSet

__all__ = ["frozen_id", "frozen_table", "write_whole"]


def frozen_table(metadata: Metadata, sets: Mapping[str, RowSet]) -> pa.Table:
    """Each set in the order of its keys: key, split (the set's name), count."""
    parts = []
    for name, rows in sets.items():
        counts = np.ones(len(rows.indices), np.int64) if rows.counts is None else rows.counts
        keys = metadata.table["key"].take(pa.array(rows.indices))
        columns = {"key": keys, "split": [name] * len(keys), "count": pa.array(counts, pa.int32())}
        parts.append(pa.table(columns).sort_by("key"))
    return pa.concat_tables(parts)


def frozen_id(table: pa.Table) -> str:
    """The hash of a frozen task: of its sets, keys and counts."""
    columns = (table[name].to_pylist() for name in ("split", "key", "count"))
    return content_hash("\n".join("\t".join(map(str, row)) for row in zip(*columns, strict=True)))


def write_whole(table: pa.Table, target: Path) -> None:
    """Write a Parquet file that appears whole or not at all."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        pq.write_table(table, temporary, compression="zstd", use_dictionary=["split", "count"])
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
