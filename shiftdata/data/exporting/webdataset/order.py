"""The order of samples in tars: mixed, so that whoever reads from front to back sees about the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.exporting.sets import Indices
from shiftdata.data.exporting.webdataset.entries import Samples
from shiftdata.stable import uniform


def order_of(samples: Samples, nuisance: str) -> Indices:
    """Order a set's samples: stratified, the copies of a row drawn several times far from each other."""
    rows = samples.rows
    strata = [
        pc.fill_null(rows[name], missing).to_numpy()
        for name, missing in (("label", -1), (nuisance, -1), ("severity", -1.0))
    ]
    if "count" in rows.column_names and (pc.max(rows["count"]).as_py() or 0) > 1:
        strata.append(rows["key"].combine_chunks().dictionary_encode().indices.to_numpy())
    return stratified_order(samples.names(), *strata)


def stratified_order(keys: Sequence[str], *strata: NDArray[Any]) -> Indices:
    """Order rows so that every stretch of them has each stratum in about its share of the whole.

    `strata` go from coarse to fine, such as label, nuisance and severity. Rows of the finest cell lie by
    stable hash. Then, from fine to coarse, the i-th of the n rows of a cell gets a random place within the
    i-th n-th of its whole: no cell clusters, and no period repeats. The order of the input never matters.
    """
    place = np.array([uniform("wds", key) for key in keys])
    for depth, cell in reversed(list(enumerate(_nested(len(keys), strata)))):
        order = np.lexsort((place, cell))
        sizes = np.bincount(cell)
        nth = np.arange(len(keys)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        jitter = np.array([uniform("wds", depth, keys[row]) for row in order])
        place[order] = (nth + jitter) / np.repeat(sizes, sizes)
    return np.lexsort((np.array(keys), place)).astype(np.int64)


def _nested(rows: int, strata: Sequence[NDArray[Any]]) -> list[Indices]:
    """Number the cell of each row: by the first stratum, by the first two, ..."""
    cells = []
    cell = np.zeros(rows, np.int64)
    for stratum in strata:
        values, codes = np.unique(stratum, return_inverse=True)
        cell = np.unique(cell * len(values) + codes, return_inverse=True)[1].astype(np.int64)
        cells.append(cell)
    return cells
