"""Candidates for near-duplicates: the nearest examples of other origins, by exact cosines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray

#: Makes vectors, whose cosines count, of a block of rows.
Form: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]
#: Rows of a block of queries, and of those that it is compared with: 16 MB of cosines at a time.
QUERIES, ROWS = 1024, 4096


def neighbours(
    rows: NDArray[Any],
    origins: IntArray,
    splits: IntArray,
    k: int,
    *,
    form: Form = np.asarray,
    query: Form | None = None,
    least: float = 0.0,
) -> IntArray:
    """Return pairs of each row with the k nearest rows of other origins, and the k nearest of other splits.

    The second k finds a copy in the test set although the training set has many. `form` makes vectors of
    rows, and `query` those that look for them, such as of mirrored pictures. Only cosines above `least`
    count. Each pair is there once, in order. Memory is bounded by the blocks: rows may be a map of a file.
    """
    pairs = [np.empty((0, 2), np.int64)]
    for start in range(0, len(rows), QUERIES):
        queries = _unit((query or form)(rows[start : start + QUERIES]))
        pairs.append(_nearest(queries, rows, form, origins, splits, start, k, least))
    return np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)


def _nearest(
    queries: NDArray[np.float32],
    rows: NDArray[Any],
    form: Form,
    origins: IntArray,
    splits: IntArray,
    first: int,
    k: int,
    least: float,
) -> IntArray:
    """Return the pairs of one block of queries, the rows from `first` on."""
    count = len(queries)
    best = [_Best(count, k, least) for _ in range(2)]
    for start in range(0, len(rows), ROWS):
        cosines = queries @ _unit(form(rows[start : start + ROWS])).T
        # Once the first blocks are in, few cosines reach the k-th best: only these are sorted.
        mine, other = np.nonzero(cosines > np.minimum(best[0].floor, best[1].floor)[:, None])
        values, other = cosines[mine, other], other + start
        apart = origins[mine + first] != origins[other]
        for kept, differ in zip(best, (apart, apart & (splits[mine + first] != splits[other])), strict=True):
            kept.add(mine[differ], other[differ], values[differ])
    return np.concatenate([np.stack([kept.mine + first, kept.other], axis=1) for kept in best])


class _Best:
    """The best k of each query so far, as parallel arrays; `floor` is what the next must exceed."""

    def __init__(self, count: int, k: int, least: float) -> None:
        self.k, self.floor = k, np.full(count, least, np.float32)
        self.mine, self.other = np.empty(0, np.int64), np.empty(0, np.int64)
        self.values = np.empty(0, np.float32)

    def add(self, mine: IntArray, other: IntArray, values: NDArray[np.float32]) -> None:
        mine, other = np.concatenate([self.mine, mine]), np.concatenate([self.other, other])
        values = np.concatenate([self.values, values])
        order = np.lexsort((other, -values, mine))  # of equal ones the first rows, whatever the blocks
        mine, other, values = mine[order], other[order], values[order]
        place = np.arange(len(mine)) - np.searchsorted(mine, mine)  # within its query
        keep = place < self.k
        self.mine, self.other, self.values = mine[keep], other[keep], values[keep]
        full = place[keep] == self.k - 1
        self.floor[self.mine[full]] = self.values[full]


def _unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    vectors = np.asarray(vectors, np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(norms, 1e-12)
    return unit
