"""Rows sorted into cells: all rows of one label, or of one group, together.

Everything that resamples starts here; what to do about a cell without rows is decided here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import IntArray, as_ids, one_of
from shiftdata.errors import InputError

#: What to do when a label or group that should be there has no row: refuse, or go on with the others.
OnEmpty: TypeAlias = Literal["error", "drop"]
#: A table is made with a place for every id up to the largest; ids above this are not consecutive numbers.
LARGEST_ID = 10_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Rows by cell. Cell number c, named `ids[c]`, owns `order[starts[c] : starts[c] + counts[c]]`."""

    ids: IntArray
    counts: IntArray
    starts: IntArray
    order: IntArray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_rows(self) -> int:
        return len(self.order)

    def draw(self, cells: IntArray, generator: np.random.Generator) -> IntArray:
        """Draw a row of each of the given cells, uniformly, with replacement."""
        # Exact enough: counts are far below 2**53.
        place = (generator.random(cells.shape) * self.counts[cells]).astype(np.int64)
        rows: IntArray = self.order[self.starts[cells] + place]
        return rows

    def first(self, take: int, generator: np.random.Generator) -> IntArray:
        """Return the first rows of each cell in a random order of its rows."""
        shuffled = generator.permutation(self.n_rows)
        cell_of_row = np.empty(self.n_rows, dtype=narrowest(len(self)))
        cell_of_row[self.order] = np.repeat(np.arange(len(self)), self.counts)
        order = shuffled[np.argsort(cell_of_row[shuffled], kind="stable")]
        place = np.arange(self.n_rows) - np.repeat(self.starts, self.counts)
        return order[place < take]


def cells_of(
    codes: ArrayLike,
    *,
    kind: str = "group",
    expected: Sequence[int] | None = None,
    on_empty: OnEmpty = "error",
) -> Cells:
    """Sort rows by their label or group number; `expected` are all from 0 to the largest if not given.

    >>> cells = cells_of([1, 0, 1, 3], on_empty="drop")
    >>> cells.ids.tolist(), cells.counts.tolist(), cells.order.tolist()
    ([0, 1, 3], [1, 2, 1], [1, 0, 2, 3])
    """
    one_of("on_empty", on_empty, ("error", "drop"))
    numbers = _small_ids(f"{kind}s", codes)
    table = np.bincount(numbers)
    wanted = np.arange(len(table))
    if expected is not None:
        wanted = np.unique(_small_ids("ids", np.asarray(expected)))
        table = np.bincount(numbers, minlength=int(wanted.max()) + 1)
    if table[wanted].sum() < len(numbers):
        strays = np.setdiff1d(np.flatnonzero(table), wanted)
        raise InputError(
            f"some rows are of {kind} {_shown(strays)}, not among the {len(wanted)} of ids: leave "
            f"those rows out, or name their {kind}s too"
        )
    sizes = table[wanted]
    empty = wanted[sizes == 0]
    if empty.size and on_empty == "error":
        raise InputError(
            f"{empty.size} of {len(wanted)} {kind}s have no row: {_shown(empty)}. Pass on_empty='drop' to "
            f"sample from the others, or ids=... with the {kind}s that should be there"
        )
    ids, counts = wanted[sizes > 0], sizes[sizes > 0]
    place = np.zeros(len(table), dtype=narrowest(len(ids)))
    place[ids] = np.arange(len(ids))
    return Cells(
        ids=ids,
        counts=counts,
        starts=np.cumsum(counts) - counts,
        order=np.argsort(place[numbers], kind="stable"),
    )


def _small_ids(name: str, values: ArrayLike) -> IntArray:
    ids = as_ids(name, values)
    if (largest := int(ids.max())) > LARGEST_ID:
        raise InputError(
            f"{name} must be consecutive numbers of at most {LARGEST_ID}, got {largest}: number "
            "them with np.unique(..., return_inverse=True)"
        )
    return ids


def narrowest(n_cells: int) -> type[np.unsignedinteger]:
    """Return the type to sort cell numbers in: numpy sorts 16 bits by radix, five times as fast as 64."""
    return np.uint16 if n_cells <= 2**16 else np.uint64


def _shown(ids: IntArray) -> str:
    shown = ", ".join(map(str, ids[:8].tolist()))
    return f"{shown}, ..." if ids.size > 8 else shown
