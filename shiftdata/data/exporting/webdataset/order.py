"""The order of samples in tars: mixed, so that whoever reads from front to back sees about the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.exporting.webdataset.entries import Indices, Samples
from shiftdata.stable import uniform


def order_of(samples: Samples, nuisance: str) -> Indices:
    """The order of a set's samples: stratified, and the samples of one row not next to each other."""
    rows = samples.rows
    strata = [
        pc.fill_null(rows[name], missing).to_numpy()
        for name, missing in (("label", -1), (nuisance, -1), ("severity", -1.0))
    ]
    if "count" not in rows.column_names or (pc.max(rows["count"]).as_py() or 0) < 2:
        return stratified_order(samples.names(), *strata)
    keys = rows["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    return apart(stratified_order(samples.names(), *strata, keys), keys)


def apart(order: Indices, keys: Indices) -> Indices:
    """Move as few rows as may be, so that no two neighbours have one key where there are enough others.

    >>> apart(np.arange(5), np.array([7, 7, 8, 9, 9])).tolist()
    [4, 0, 2, 1, 3]
    """
    rows, held = order.tolist(), keys[order].tolist()
    for place in range(1, len(rows)):
        if held[place] == held[place - 1]:
            later = next((at for at in range(place, len(rows)) if held[at] != held[place]), None)
            if later is None:  # only rows of this key are left
                return _between(rows, held, place)
            for values in (rows, held):
                values[place], values[later] = values[later], values[place]
    return np.array(rows, np.int64)


def _between(rows: list[int], held: list[int], first: int) -> Indices:
    """Put the rows from `first` on, all of one key, where no neighbour has it; what is left stays last."""
    key, moved, result = held[first], rows[first:], []
    for place in range(first):
        if moved and held[place] != key and (place == 0 or held[place - 1] != key):
            result.append(moved.pop())
        result.append(rows[place])
    return np.array(result + moved, np.int64)


def stratified_order(keys: Sequence[str], *strata: NDArray[Any]) -> Indices:
    """Order rows so that every stretch of them has each stratum in about its share of the whole.

    `strata` go from coarse to fine, such as label, nuisance and severity. Rows of the finest cell lie by
    stable hash. Then, from fine to coarse, the i-th of the n rows of a cell gets a random place within the
    i-th n-th of its whole: no cell clusters, and no period repeats. The order of the input never matters.
    """
    place = np.array([uniform("wds", key) for key in keys])
    cells = _nested(len(keys), strata)
    for depth, cell in reversed(list(enumerate(cells))):
        order = np.lexsort((place, cell))
        sizes = np.bincount(cell)
        nth = np.arange(len(keys)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        jitter = np.array([uniform("wds", depth, keys[row]) for row in order])
        place[order] = (nth + jitter) / np.repeat(sizes, sizes)
    return np.lexsort((np.array(keys), place)).astype(np.int64)


def _nested(rows: int, strata: Sequence[NDArray[Any]]) -> list[Indices]:
    """A number for the cell of each row: by the first stratum, by the first two, ..."""
    cells = []
    cell = np.zeros(rows, np.int64)
    for stratum in strata:
        values, codes = np.unique(stratum, return_inverse=True)
        cell = np.unique(cell * len(values) + codes, return_inverse=True)[1].astype(np.int64)
        cells.append(cell)
    return cells
