"""Rows sorted into cells: all rows of one label, or of one group, together.

Everything that resamples starts here; what to do about a cell without rows is decided here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftdata.data.arrays import IntArray, as_narrow_ids, by_code, counted, looked_up, one_of, stretches
from shiftdata.errors import InputError

#: What to do when a label or group that should be there has no row: refuse, or go on with the others.
OnEmpty: TypeAlias = Literal["error", "drop"]
#: A table is made with a place for every id up to the largest; ids above this are not consecutive numbers.
LARGEST_ID = 10_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Rows by cell. Cell number c, named `ids[c]`, owns `order[starts[c] : starts[c] + counts[c]]`.

    `numbers` has the id of each row.
    """

    ids: IntArray
    counts: IntArray
    numbers: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_rows(self) -> int:
        return len(self.numbers)

    @cached_property
    def starts(self) -> IntArray:
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def order(self) -> IntArray:
        return self._by_cell(self.numbers)

    def draw(self, cells: IntArray, generator: np.random.Generator) -> IntArray:
        """Draw a row of each of the given cells, uniformly, with replacement."""
        rows = np.empty(len(cells), np.int64)
        for at in stretches(len(cells)):
            mine = cells[at]
            # Exact enough: counts are far below 2**53.
            place = (generator.random(len(mine)) * self.counts[mine]).astype(np.int64)
            rows[at] = self.order[self.starts[mine] + place]
        return rows

    def first(self, take: int, generator: np.random.Generator) -> IntArray:
        """Return the first rows of each cell in a random order of its rows."""
        shuffled = generator.permutation(self.n_rows)
        order = self._by_cell(looked_up(self.numbers, shuffled))
        kept = np.minimum(self.counts, take)
        places = np.arange(kept.sum()) + np.repeat(self.starts - (np.cumsum(kept) - kept), kept)
        rows: IntArray = shuffled[order[places]]
        return rows

    def _by_cell(self, numbers: NDArray[np.integer]) -> IntArray:
        return by_code(numbers, int(self.ids[-1]) + 1)[0]


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
    wanted = None if expected is None else np.unique(_small_ids("ids", np.asarray(expected)))
    size = max(int(numbers.max()), -1 if wanted is None else int(wanted.max())) + 1
    table = counted(numbers, size)
    wanted = np.arange(size) if wanted is None else wanted
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
    return Cells(ids=ids, counts=counts, numbers=numbers.astype(np.min_scalar_type(size)))


def _small_ids(name: str, values: ArrayLike) -> NDArray[np.signedinteger]:
    ids = as_narrow_ids(name, values)
    if (largest := int(ids.max())) > LARGEST_ID:
        raise InputError(
            f"{name} must be consecutive numbers of at most {LARGEST_ID}, got {largest}: number "
            "them with np.unique(..., return_inverse=True)"
        )
    return ids


def _shown(ids: IntArray) -> str:
    shown = ", ".join(map(str, ids[:8].tolist()))
    return f"{shown}, ..." if ids.size > 8 else shown
