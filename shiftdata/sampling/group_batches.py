"""Batches of a few groups each, with equally many rows of every one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shiftdata.errors import InputError
from shiftdata.sampling.cells import Cells, Integers, draw_below
from shiftdata.sampling.samplers import EpochSampler, Names

#: Batches drawn together; each stretch has its own generator, so that any batch is quickly reached.
STRETCH = 256


class GroupBatches(EpochSampler[list[int]]):
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
        _check(cells, batch_size, n_groups_per_batch, distinct)
        size = cells.n_rows // batch_size
        super().__init__("n-groups", size, seed=seed, names=names, dropped=cells.dropped)
        self.cells = cells
        self.batch_size = batch_size
        self.n_groups_per_batch = n_groups_per_batch
        self.proportional = proportional
        self.distinct = distinct

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        for stretch in range(start // STRETCH, -(-self.size // STRETCH)):
            first = stretch * STRETCH
            batches = self._stretch(epoch, stretch, min(STRETCH, self.size - first))
            yield from batches[max(start - first, 0) :].tolist()

    def _stretch(self, epoch: int, stretch: int, n_batches: int) -> Integers:
        generator = self._rng("batches", epoch, stretch)
        groups = self._groups(n_batches, generator)
        return self._rows(groups.ravel(), generator).reshape(n_batches, self.batch_size)

    def _groups(self, n_batches: int, generator: np.random.Generator) -> Integers:
        n_groups, drawn = len(self.cells), (n_batches, self.n_groups_per_batch)
        if self.proportional and self.distinct:
            # One after the other, each in proportion to its size among those left, is a race of clocks.
            clocks = generator.standard_exponential((n_batches, n_groups)) / self.cells.counts
            first = np.argpartition(clocks, self.n_groups_per_batch - 1, axis=1)[:, : self.n_groups_per_batch]
            return generator.permuted(np.sort(first, axis=1), axis=1)
        if self.proportional:
            rows = generator.integers(self.cells.n_rows, size=drawn)
            return np.searchsorted(self.cells.starts, rows, side="right") - 1
        if self.distinct:
            return draw_distinct(np.full(n_batches, n_groups), self.n_groups_per_batch, generator)
        return generator.integers(n_groups, size=drawn)

    def _rows(self, groups: Integers, generator: np.random.Generator) -> Integers:
        """Rows of each group, one line a group."""
        wanted = self.batch_size // self.n_groups_per_batch
        sizes = self.cells.counts[groups]
        scarce = sizes <= wanted
        places = np.empty((len(groups), wanted), dtype=np.int64)
        places[scarce] = draw_below(np.repeat(sizes[scarce, None], wanted, axis=1), generator)
        places[~scarce] = draw_distinct(sizes[~scarce], wanted, generator)
        rows: Integers = self.cells.order[self.cells.starts[groups, None] + places]
        return rows


def draw_distinct(sizes: Integers, wanted: int, generator: np.random.Generator) -> Integers:
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


def _check(cells: Cells, batch_size: int, n_groups_per_batch: int, distinct: bool) -> None:
    if n_groups_per_batch < 1 or batch_size < 1 or batch_size % n_groups_per_batch:
        raise InputError(
            f"batch_size must be a multiple of n_groups_per_batch, both at least 1; got {batch_size} and "
            f"{n_groups_per_batch}"
        )
    if batch_size > cells.n_rows:
        raise InputError(f"batch_size {batch_size} is above the {cells.n_rows} rows: lower it")
    if distinct and n_groups_per_batch > len(cells):
        raise InputError(
            f"n_groups_per_batch {n_groups_per_batch} is above the {len(cells)} groups that have rows: lower "
            "it, or pass distinct=False"
        )
