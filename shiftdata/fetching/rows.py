"""Which rows of a part share a row group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.format.writer import BYTES_PER_GROUP, ROWS_PER_GROUP, SMALL_STRETCH, Indices, within_limits

#: As a build cuts them: pictures of one group in short stretches, all else in long ones.
MOST_ROWS = {"image": ROWS_PER_GROUP, "text": 5000, "table": 5000}


def row_groups_in_order(rows: pa.Table, modality: str) -> list[Indices]:
    """Cut rows of metadata into row groups, in their order, so that a filter by group skips what it can.

    Rows that stood in one row group of the whole are neighbours, and stay together as far as they fit.
    """
    lengths = rows["length"].to_numpy().astype(np.int64)
    runs = [np.arange(len(lengths))]
    if modality == "image":
        numbers = pc.fill_null(rows["group"], -1).to_numpy()
        runs = np.split(runs[0], np.flatnonzero(np.diff(numbers)) + 1)
    groups: list[Indices] = []
    for run in runs:
        last = groups[-1] if groups else None
        small = last is not None and max(len(last), len(run)) < SMALL_STRETCH
        if last is not None and small and lengths[last].sum() + lengths[run].sum() <= BYTES_PER_GROUP:
            groups[-1] = np.concatenate([last, run])
        else:
            groups += within_limits(run, lengths, MOST_ROWS[modality])
    return groups
