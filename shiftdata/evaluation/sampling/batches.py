"""Samplers of batches: the rows of another sampler cut into batches, or batches built cell by cell."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling.cells import Cells, draw_below
from shiftdata.evaluation.sampling.samplers import EpochSampler, Names, RowSampler

#: Batches drawn together; each stretch has its own generator, so that any batch is quickly reached.
STRETCH = 256


class Batches(EpochSampler[list[int]]):
    """The rows of a sampler in lists of `batch_size`; for `DataLoader(batch_sampler=...)`.

    The epoch, start and state are those of the batches; the sampler inside keeps its own. Ranks share rows:
    each has the batches that a loader makes of its share of the sampler's rows. `drop_last` leaves out a
    batch that is not full, and the rows that ranks do not share evenly.
    """

    def __init__(self, sampler: RowSampler, batch_size: int, *, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        super().__init__(
            sampler.kind, sampler.total, seed=sampler.seed, names=sampler.names, dropped=sampler.dropped
        )
        self.sampler, self.batch_size = sampler, batch_size
        self.ranks = replace(sampler.ranks, drop_last=drop_last)
        self.check_size()

    @property
    def size(self) -> int:
        rows = self.ranks.size(self.total)
        return rows // self.batch_size if self.ranks.drop_last else -(-rows // self.batch_size)

    def check_size(self) -> None:
        if self.size < 1:
            raise InputError(
                f"the {self.ranks.size(self.total):,} rows of an epoch on each rank are not a full batch of "
                f"{self.batch_size}, and drop_last leaves none: lower batch_size, or leave out drop_last"
            )

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        rows = self.ranks.share(self.sampler.rows_of(epoch))
        for number in range(start, self.size):
            yield rows[number * self.batch_size : (number + 1) * self.batch_size].tolist()

    def _identity(self) -> tuple[str | int, ...]:
        return (*super()._identity(), self.batch_size)


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
        seed: int,
        names: Names,
    ) -> None:
        if batch_size > rows:
            raise InputError(f"batch_size {batch_size} is above the {rows} rows: lower it")
        super().__init__(kind, rows // batch_size, seed=seed, names=names, dropped=cells.dropped)
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
        """The cells of each batch, one line a batch."""

    @abstractmethod
    def _rows(self, cells: IntArray, generator: np.random.Generator) -> IntArray:
        """Rows of each cell, one line a cell."""

    def _identity(self) -> tuple[str | int, ...]:
        return (*super()._identity(), self.batch_size, self.cells_per_batch)


class GroupBatches(CellBatches):
    """Each batch: `n_groups_per_batch` groups, batch_size / n_groups_per_batch rows of each.

    WILDS's group loader. Groups are drawn uniformly, or in proportion to their sizes, and differ within a
    batch unless `distinct=False`. Rows of a group differ within a batch; a group that has no more rows than
    are needed is drawn from with replacement. An epoch has floor(rows / batch_size) batches.
    """

    def __init__(
        self,
        cells: Cells,
        *,
        batch_size: int,
        n_groups_per_batch: int,
        proportional: bool = False,
        distinct: bool = True,
        seed: int = 0,
        names: Names = (),
    ) -> None:
        _check(batch_size, n_groups_per_batch, "n_groups_per_batch")
        if distinct and n_groups_per_batch > len(cells):
            raise InputError(
                f"n_groups_per_batch {n_groups_per_batch} is above the {len(cells)} groups that have rows: "
                "lower it, or pass distinct=False"
            )
        super().__init__(
            "n-groups",
            cells,
            batch_size=batch_size,
            cells_per_batch=n_groups_per_batch,
            rows=cells.n_rows,
            seed=seed,
            names=names,
        )
        self.proportional, self.distinct = proportional, distinct

    def _cells(self, n_batches: int, generator: np.random.Generator) -> IntArray:
        n_groups, drawn = len(self.cells), (n_batches, self.cells_per_batch)
        if self.proportional and self.distinct:
            # One after the other, each in proportion to its size among those left, is a race of clocks.
            clocks = generator.standard_exponential((n_batches, n_groups)) / self.cells.counts
            first = np.argpartition(clocks, self.cells_per_batch - 1, axis=1)[:, : self.cells_per_batch]
            return generator.permuted(np.sort(first, axis=1), axis=1)
        if self.proportional:
            rows = generator.integers(self.cells.n_rows, size=drawn)
            return np.searchsorted(self.cells.starts, rows, side="right") - 1
        if self.distinct:
            return draw_distinct(np.full(n_batches, n_groups), self.cells_per_batch, generator)
        return generator.integers(n_groups, size=drawn)

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
    batch; an epoch has floor(epoch_size / batch_size) of them, `epoch_size` being the rows there are if not
    given.
    """

    def __init__(
        self,
        cells: Cells,
        *,
        batch_size: int,
        epoch_size: int | None = None,
        seed: int = 0,
        names: Names = (),
    ) -> None:
        _check(batch_size, len(cells), "the domains that have rows")
        super().__init__(
            "per-domain",
            cells,
            batch_size=batch_size,
            cells_per_batch=len(cells),
            rows=cells.n_rows if epoch_size is None else epoch_size,
            seed=seed,
            names=names,
        )

    def _cells(self, n_batches: int, generator: np.random.Generator) -> IntArray:
        return np.tile(np.arange(len(self.cells)), (n_batches, 1))

    def _rows(self, cells: IntArray, generator: np.random.Generator) -> IntArray:
        return self.cells.draw(np.repeat(cells, self.batch_size // self.cells_per_batch), generator)


def draw_distinct(sizes: IntArray, wanted: int, generator: np.random.Generator) -> IntArray:
    """For each size, `wanted` different numbers below it: every set and every order equally likely.

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


def _check(batch_size: int, cells_per_batch: int, what: str) -> None:
    if cells_per_batch < 1 or batch_size < 1 or batch_size % cells_per_batch:
        raise InputError(
            f"batch_size must be a multiple of {what}, both at least 1; got {batch_size} and "
            f"{cells_per_batch}"
        )
