"""Samplers: plain objects that yield row numbers, epoch by epoch.

A torch `DataLoader` takes them as `sampler=` or `batch_sampler=`, but they need no torch. An epoch is a
function of (seed, names, kind, epoch): it does not matter what was iterated before, or how often.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray
from shiftdata.sampling.cells import Cells, draw_below
from shiftdata.stable import hash64, rng

Item = TypeVar("Item")

#: What keys the draws beside the seed: a dataset, a config.
Names: TypeAlias = Sequence[str | int]

#: Batches of groups drawn together; each stretch has its own generator, so that any batch is quickly reached.
STRETCH = 256

#: Rows turned into Python numbers at a time: one by one is slow, all at once takes much memory.
CHUNK = 65_536


class EpochSampler(ABC, Generic[Item]):
    """What all samplers share: an epoch, a place in it to start from, and a small state.

    Call `set_epoch` before each epoch, as for torch's own distributed sampler: without it, every epoch is
    the same. `dropped` are the labels or groups without rows that `on_empty="drop"` left out.
    """

    def __init__(
        self, kind: str, size: int, *, seed: int = 0, names: Names = (), dropped: tuple[int, ...] = ()
    ) -> None:
        if size < 1:
            raise InputError(f"the sampler {kind!r} would yield nothing: give it rows, or smaller batches")
        self.kind, self.size, self.dropped = kind, size, dropped
        self.seed, self.names = seed, tuple(names)
        self._epoch = self._start = 0

    def __len__(self) -> int:
        """How many items the next iteration yields."""
        return self.size - self._start

    def __iter__(self) -> Iterator[Item]:
        return self.items_of(self._epoch, self._start)

    @abstractmethod
    def items_of(self, epoch: int, start: int = 0) -> Iterator[Item]:
        """The items of an epoch, from number `start` on. Changes nothing."""

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Choose what the next iterations yield: an epoch, from its item number `start` on.

        To go on after an interruption, `start` is the number of items that were used.
        """
        if epoch < 0:
            raise InputError(f"epoch must be at least 0, got {epoch}")
        if not 0 <= start <= self.size:
            raise InputError(f"start must be between 0 and the {self.size} items of an epoch, got {start}")
        self._epoch, self._start = epoch, start

    @property
    def state(self) -> dict[str, int]:
        """The epoch, the start, and a hash of what else determines the items; fit for JSON."""
        key = hash64(self.kind, self.size, self.seed, *self.names)
        return {"key": key, "epoch": self._epoch, "start": self._start}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go back to a `state` of a sampler made with the same arguments."""
        if state.get("key") != self.state["key"]:
            raise InputError(
                f"the state {dict(state)} is not of this sampler ({self.kind!r}, {self.size} items, seed "
                f"{self.seed}, names {self.names}): make the sampler with the arguments it had then"
            )
        self.set_epoch(state["epoch"], state["start"])

    def _rng(self, *purpose: str | int) -> np.random.Generator:
        return rng(self.seed, *self.names, "resampling", self.kind, *purpose)


class RowSampler(EpochSampler[int]):
    """A sampler that yields one row number at a time; for `DataLoader(sampler=...)`."""

    @abstractmethod
    def rows_of(self, epoch: int) -> IntArray:
        """All row numbers of an epoch, in order. Changes nothing."""

    def items_of(self, epoch: int, start: int = 0) -> Iterator[int]:
        rows = self.rows_of(epoch)[start:]
        for first in range(0, len(rows), CHUNK):
            yield from rows[first : first + CHUNK].tolist()


class FixedRows(RowSampler):
    """Rows that are chosen once and shuffled in every epoch."""

    def __init__(
        self,
        rows: IntArray,
        *,
        kind: str = "shuffle",
        seed: int = 0,
        names: Names = (),
        dropped: tuple[int, ...] = (),
    ) -> None:
        super().__init__(kind, len(rows), seed=seed, names=names, dropped=dropped)
        self.rows = rows

    def rows_of(self, epoch: int) -> IntArray:
        return self._rng("order", epoch).permutation(self.rows)


class Reweighted(RowSampler):
    """Rows drawn with replacement so that every cell comes equally often, whatever its size.

    A row's weight is 1 / (rows in its cell), as in RWY, RWG (BalancingGroups), WILDS's loader that is
    uniform over groups, DomainBed's class-balanced one and RLSbench's RS. An epoch is as long as the data
    unless `epoch_size` is given.
    """

    def __init__(
        self, cells: Cells, *, kind: str, epoch_size: int | None = None, seed: int = 0, names: Names = ()
    ) -> None:
        size = cells.n_rows if epoch_size is None else epoch_size
        super().__init__(kind, size, seed=seed, names=names, dropped=cells.dropped)
        self.cells = cells

    def rows_of(self, epoch: int) -> IntArray:
        generator = self._rng("rows", epoch)
        return self.cells.draw(generator.integers(len(self.cells), size=self.size), generator)


class PseudoBalanced(Reweighted):
    """Balances what a classifier now predicts: RS for target data in RLSbench (Algorithm 1, step 4).

    `cells` are those of the first predictions. Give new ones before each epoch with `set_pseudo_labels`; they
    are not part of `state`: after an interruption, give them again. A class that is never predicted is an
    error unless the cells were made with `on_empty="drop"`, which is what RLSbench's code does.
    """

    def __init__(
        self, cells: Cells, *, epoch_size: int | None = None, seed: int = 0, names: Names = ()
    ) -> None:
        super().__init__(cells, kind="pseudo-balanced", epoch_size=epoch_size, seed=seed, names=names)

    def set_pseudo_labels(self, pseudo_labels: ArrayLike) -> None:
        """Balance these predictions, one for each row, from the next iteration on."""
        cells = self.cells.again(pseudo_labels)
        if cells.n_rows != self.cells.n_rows:
            raise InputError(
                f"there are {self.cells.n_rows} rows, and {cells.n_rows} pseudo-labels were given"
            )
        self.cells, self.dropped = cells, cells.dropped


class Batches(EpochSampler[list[int]]):
    """The rows of a sampler in lists of `batch_size`; for `DataLoader(batch_sampler=...)`.

    The epoch, start and state are those of the batches; the sampler inside keeps its own.
    """

    def __init__(self, sampler: RowSampler, batch_size: int, *, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        full, rest = divmod(sampler.size, batch_size)
        size = full + (rest > 0 and not drop_last)
        if size == 0:
            raise InputError(
                f"batch_size {batch_size} is above the {sampler.size} rows of an epoch of {sampler.kind!r} "
                "and drop_last leaves none: lower it, or pass drop_last=False"
            )
        super().__init__(sampler.kind, size, seed=sampler.seed, names=sampler.names, dropped=sampler.dropped)
        self.sampler, self.batch_size = sampler, batch_size

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        rows = self.sampler.rows_of(epoch)
        for number in range(start, self.size):
            yield rows[number * self.batch_size : (number + 1) * self.batch_size].tolist()


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
        self.cells, self.proportional, self.distinct = cells, proportional, distinct
        self.batch_size, self.n_groups_per_batch = batch_size, n_groups_per_batch

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        for stretch in range(start // STRETCH, -(-self.size // STRETCH)):
            first = stretch * STRETCH
            generator = self._rng("batches", epoch, stretch)
            groups = self._groups(min(STRETCH, self.size - first), generator)
            batches = self._rows(groups.ravel(), generator).reshape(-1, self.batch_size)
            yield from batches[max(start - first, 0) :].tolist()

    def _groups(self, n_batches: int, generator: np.random.Generator) -> IntArray:
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

    def _rows(self, groups: IntArray, generator: np.random.Generator) -> IntArray:
        """Rows of each group, one line a group."""
        wanted = self.batch_size // self.n_groups_per_batch
        sizes = self.cells.counts[groups]
        scarce = sizes <= wanted
        places = np.empty((len(groups), wanted), dtype=np.int64)
        places[scarce] = draw_below(np.repeat(sizes[scarce, None], wanted, axis=1), generator)
        places[~scarce] = draw_distinct(sizes[~scarce], wanted, generator)
        rows: IntArray = self.cells.order[self.cells.starts[groups, None] + places]
        return rows


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
