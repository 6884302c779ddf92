"""Read metadata that was written a moment ago, when the manifest is still to come: never a whole file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.untrusted.parquet import ParquetReader


def batches(file: Path, names: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of all rows, a few row groups at a time."""
    with ParquetReader(file) as opened:
        yield from opened.batches(names)


def picked(file: Path, names: Sequence[str], rows: NDArray[np.int64]) -> pa.Table:
    """Some columns of some rows, in the order in which they are asked for."""
    order = np.argsort(rows, kind="stable")
    parts, start = [], 0
    for batch in batches(file, names):
        first, last = np.searchsorted(rows[order], (start, start + len(batch)))
        parts.append(batch.take(pa.array(rows[order[first:last]] - start)))
        start += len(batch)
    return pa.concat_tables(parts).take(pa.array(np.argsort(order)))
