"""Group the rows of a split into row groups, and order these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.writer import (
    BYTES_PER_GROUP,
    MOST_ROWS,
    ROWS_PER_GROUP,
    SMALL_STRETCH,
    within_limits,
)
from shiftdata.data.metadata.folds import hashes64
from shiftdata.stable import hash64

SHARED_ROWS_PER_GROUP = 400


@dataclass(frozen=True)
class Rows:
    """The columns that decide the layout of a split, one entry a row."""

    keys: pa.Array
    cells: NDArray[np.int64]
    labels: NDArray[np.int64]
    quantiles: NDArray[np.float64]
    sizes: NDArray[np.int64]


def row_groups(rows: Rows) -> list[IntArray]:
    """Cut a split into row groups: stretches of one group in quantile order, ordered by stable hash.

    Short stretches, so that a plain shuffle buffer meets many groups; of one group each, so that a filter
    skips the others. Groups of a few rows share with others of their label, and labels of a few rows with
    other labels, more rows together: ten thousand classes must not become thousands of row groups.
    """
    order = np.lexsort((rows.quantiles, rows.cells))
    boundaries = np.flatnonzero(np.diff(rows.cells[order])) + 1
    stretches: list[IntArray] = []
    small: dict[int, list[IntArray]] = {}
    for cell in np.split(order, boundaries):
        pieces = within_limits(cell, rows.sizes, ROWS_PER_GROUP)
        if len(cell) < SMALL_STRETCH:
            small.setdefault(int(rows.labels[cell[0]]), []).extend(pieces)
        else:
            stretches += pieces

    def place(stretch: IntArray) -> int:
        return hash64("row-group", rows.keys[int(stretch[0])].as_py())

    tiny: list[list[IntArray]] = []
    for cells in small.values():
        cells.sort(key=place)
        if sum(map(len, cells)) < SMALL_STRETCH:
            tiny.append(cells)
        else:
            stretches += _joined(cells, rows.sizes)
    tiny.sort(key=lambda cells: place(cells[0]))
    stretches += _joined([cell for cells in tiny for cell in cells], rows.sizes, SHARED_ROWS_PER_GROUP)
    return sorted(stretches, key=place)


def shuffled_row_groups(rows: Rows) -> list[IntArray]:
    """Cut a split of texts or features into row groups in stable-hash order.

    They are so small that skipping a group saves nothing, while every reader profits from mixed rows.
    """
    hashes = hashes64(rows.keys.to_pylist(), "row")
    return within_limits(np.argsort(hashes, kind="stable"), rows.sizes, MOST_ROWS["text"])


def _joined(
    cells: Sequence[IntArray], sizes: NDArray[np.int64], most_rows: int = ROWS_PER_GROUP
) -> Iterator[IntArray]:
    """Join small groups while they stay below the limits."""
    pending: list[IntArray] = []
    for cell in cells:
        candidate = np.concatenate([*pending, cell])
        if pending and (len(candidate) > most_rows or sizes[candidate].sum() > BYTES_PER_GROUP):
            yield np.concatenate(pending)
            pending = []
        pending.append(cell)
    if pending:
        yield np.concatenate(pending)
