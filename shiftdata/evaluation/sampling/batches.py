"""Samplers of batches that are built cell by cell."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Unpack

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.order import EpochSampler, Keys
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling.cells import Cells, draw_below

#: Batches drawn together; each stretch has its own generator, so that any batch is quickly reached.
STRETCH = 256


class CellBatches(EpochSampler[list[int]]):
    """Batches of equally many rows of each of some cells; ranks take whole batches in turns."""

    def __init__(
        self,
        kind: str,
        cells: Cells,
        *,
        batch_size: int,
        cells_per_batch: int,
        rows: int,
        **keys: Unpack[Keys],
    ) -> None:
        if cells_per_batch < 1 or batch_size < 1 or batch_size % cells_per_batch:
            number = "n_groups_per_batch" if kind == "n-groups" else "the domains that have rows"
            raise InputError(
                f"batch_size must be a multiple of {number}, both at least 1; got {batch_size} and "
                f"{cells_per_batch}"
            )
        if batch_size > rows:
            raise InputError(f"batch_size {batch_size} is above the {rows} rows: lower it")
        super().__init__(kind, rows // batch_size, dropped=cells.dropped, **keys)
        self.cells, self.batch_size, self.cells_per_batch = cells, batch_size, cells_per_batch

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        at, batches = -1, np.empty((0, self.batch_size), np.int64)
        for number in self.ranks.share(np.arange(self.total))[start:].tolist():
            stretch, place = divmod(number, STRETCH)
            if stretch != at:
                generator = self._rng("batches", epoch, stretch)
                cells = self._cells(min(STRETCH, self.total - stretch * STRETCH), generator)
                at, batches = stretch, self._rows(cells.ravel(), generator).reshape(-1, self.batch_size)
            yield batches[place].tolist()

    @abstractmethod
    def _cells(self, n_batches: int, generator: np.random.Generator) -> IntArray:
        """Draw the cells of each batch, one line a batch."""

    @abstractmethod
    def _rows(self, cells: IntArray, generator: np.random.Generator) -> IntArray:
        """Draw rows of each cell, one line a cell."""

    def _identity(self) -> tuple[str | int, ...]:
        return (*super()._identity(), self.batch_size, self.cells_per_batch)


class GroupBatches(CellBatches):
    """Each batch: `n_groups_per_batch` groups, batch_size / n_groups_per_batch rows of each.

    WILDS's group loader. Groups are drawn uniformly and differ within a batch. Rows of a group differ within
    a batch; a group that has no more rows than are needed is drawn from with replacement. An epoch has
    floor(rows / batch_size) batches.
    """

    def __init__(
        self, cells: Cells, *, batch_size: int, n_groups_per_batch: int, **keys: Unpack[Keys]
    ) -> None:
        if n_groups_per_batch > len(cells):
            raise InputError(
                f"n_groups_per_batch {n_groups_per_batch} is above the {len(cells)} groups that have rows: "
                "lower it"
            )
        sizes = {"batch_size": batch_size, "cells_per_batch": n_groups_per_batch, "rows": cells.n_rows}
        super().__init__("n-groups", cells, **sizes, **keys)

    def _cells(self, n_batches: int, generator: np.random.Generator) -> IntArray:
        return draw_distinct(np.full(n_batches, len(self.cells)), self.cells_per_batch, generator)

    def _rows(self, cells: IntArray, generator: np.random.Generator) -> IntArray:
        wanted = self.batch_size // self.cells_per_batch
        sizes = self.cells.counts[cells]
        scarce = sizes <= wanted
        places = np.empty((len(cells), wanted), dtype=np.int64)
        places[scarce] = draw_below(np.repeat(sizes[scarce, None], wanted, axis=1), generator)
        places[~scarce] = draw_distinct(sizes[~scarce], wanted, generator)
        rows: IntArray = self.cells.order[self.cells.starts[cells, None] + places]
        return rows


class DomainBatches(CellBatches):
    """Each batch: batch_size / domains rows of each domain, domain after domain, in the order of numbers.

    DomainBed's minibatches: a batch can be reshaped to (domains, rows, ...). Each row of a domain is drawn
    uniformly with replacement, as by DomainBed's infinite loaders, so that no domain runs out. A step is one
    batch; an epoch has floor(epoch_size / batch_size) of them, `epoch_size` being all rows by default.
    """

    def __init__(
        self, cells: Cells, *, batch_size: int, epoch_size: int | None = None, **keys: Unpack[Keys]
    ) -> None:
        rows = cells.n_rows if epoch_size is None else epoch_size
        sizes = {"batch_size": batch_size, "cells_per_batch": len(cells), "rows": rows}
        super().__init__("per-domain", cells, **sizes, **keys)

    def _cells(self, n_batches: int, generator: np.random.Generator) -> IntArray:
        return np.tile(np.arange(len(self.cells)), (n_batches, 1))

    def _rows(self, cells: IntArray, generator: np.random.Generator) -> IntArray:
        return self.cells.draw(np.repeat(cells, self.batch_size // self.cells_per_batch), generator)


def draw_distinct(sizes: IntArray, wanted: int, generator: np.random.Generator) -> IntArray:
    """Draw `wanted` different numbers below each size: every set and every order equally likely.

    Floyd's sampling (Bentley & Floyd, CACM 1987), for all sizes at once.

    >>> draw_distinct(np.array([3, 3]), 3, np.random.default_rng(0)).sum(axis=1).tolist()
    [3, 3]
    """
    drawn = np.empty((len(sizes), wanted), dtype=np.int64)
    for place in range(wanted):
        last = sizes - wanted + place
        number = draw_below(last + 1, generator)
        taken = (drawn[:, :place] == number[:, None]).any(axis=1)
        drawn[:, place] = np.where(taken, last, number)
    return generator.permuted(drawn, axis=1)
