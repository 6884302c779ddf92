"""Samplers: plain objects that yield row numbers, epoch by epoch.

A torch `DataLoader` takes them as `sampler=` or `batch_sampler=`, but they need no torch. An epoch is a
function of (seed, names, kind, epoch): it does not matter what was iterated before, or how often. Every
iteration yields the next epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Generic, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling.cells import Cells, row_weights
from shiftdata.evaluation.sampling.ranks import Ranks
from shiftdata.stable import content_hash, hash64, rng

Item = TypeVar("Item")

#: What keys the draws beside the seed: a dataset, a config.
Names: TypeAlias = Sequence[str | int]

#: Rows turned into Python numbers at a time: one by one is slow, all at once takes much memory.
CHUNK = 65_536


class EpochSampler(ABC, Generic[Item]):
    """What all samplers share: epochs, ranks, a place to start from, and a small state.

    Each iteration that yields an item takes the next epoch, from 0 on, whether the one before ended or was
    left early. `set_epoch` chooses the epoch of the next iteration, and those after it go on from there.

    `total` are the items of an epoch over all ranks, `size` those of this rank. All ranks draw the same
    epochs. `dropped` are the labels or groups without rows that `on_empty="drop"` left out.
    """

    def __init__(
        self, kind: str, total: int, *, seed: int = 0, names: Names = (), dropped: tuple[int, ...] = ()
    ) -> None:
        if total < 1:
            raise InputError(f"the sampler {kind!r} would yield nothing: give it rows, or smaller batches")
        self.kind, self.total, self.dropped = kind, total, dropped
        self.seed, self.names = seed, tuple(names)
        self.ranks = Ranks.of()
        self._now = self._next = (0, 0)  # epoch and start: of the iteration begun last, and of the next

    @property
    def size(self) -> int:
        """How many items of an epoch this rank gets."""
        return self.ranks.size(self.total)

    def __len__(self) -> int:
        """How many items the next iteration yields."""
        return self.size - self._next[1]

    def __iter__(self) -> Iterator[Item]:
        # A generator, so that this runs at the first item: a DataLoader with workers makes two and uses one.
        self._now, self._next = self._next, (self._next[0] + 1, 0)
        yield from self.items_of(*self._now)

    @abstractmethod
    def items_of(self, epoch: int, start: int = 0) -> Iterator[Item]:
        """The items of an epoch on this rank, from number `start` on. Changes nothing."""

    def among(self, ranks: Ranks) -> Self:
        """The same sampler on other ranks."""
        made = copy(self)
        made.ranks = ranks
        made.check_size()
        return made

    def check_size(self) -> None:
        """Refuse ranks that get no item."""
        if self.size < 1:
            raise InputError(
                f"an epoch of {self.total:,} items of {self.kind!r} over {self.ranks.world} ranks has none "
                "for each: leave out drop_last"
            )

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Choose what the next iteration yields: an epoch, from its item number `start` on.

        To go on after an interruption, `start` is the number of items that were used. A loader with workers
        draws ahead, so that only its user knows how many these are.
        """
        if epoch < 0:
            raise InputError(f"epoch must be at least 0, got {epoch}")
        if not 0 <= start <= self.size:
            raise InputError(f"start must be between 0 and the {self.size} items of an epoch, got {start}")
        self._now = self._next = (epoch, start)

    @property
    def state(self) -> dict[str, int]:
        """Epoch and start of the iteration begun last, or chosen since, and a hash of the rest; fit for JSON.

        It is the same during an iteration and after its end: what was drawn ahead does not show.
        """
        epoch, start = self._now
        return {"key": hash64(*self._identity()), "epoch": epoch, "start": start}

    def restore(self, state: Mapping[str, int]) -> None:
        """Let the next iteration yield what that of the `state` yielded, from its start.

        To go on within or after it, call `set_epoch(state["epoch"], start)`, or with the epoch after it.
        """
        if state.get("key") != self.state["key"]:
            raise InputError(
                f"the state {dict(state)} is not of this sampler ({self.kind!r}, {self.size} items, seed "
                f"{self.seed}, names {self.names}): make the sampler with the arguments it had then"
            )
        self.set_epoch(state["epoch"], state["start"])

    def _identity(self) -> tuple[str | int, ...]:
        ranks = self.ranks
        return (self.kind, self.total, self.seed, ranks.world, int(ranks.drop_last), *self.names)

    def _rng(self, *purpose: str | int) -> np.random.Generator:
        return rng(self.seed, *self.names, "resampling", self.kind, *purpose)


class RowSampler(EpochSampler[int]):
    """A sampler that yields one row number at a time; for `DataLoader(sampler=...)`."""

    @abstractmethod
    def rows_of(self, epoch: int) -> IntArray:
        """The row numbers of an epoch on all ranks, in order. Changes nothing."""

    def items_of(self, epoch: int, start: int = 0) -> Iterator[int]:
        rows = self.ranks.share(self.rows_of(epoch))[start:]
        for first in range(0, len(rows), CHUNK):
            yield from rows[first : first + CHUNK].tolist()


class InOrder(RowSampler):
    """Given rows in their order, the same in every epoch."""

    def __init__(self, rows: IntArray) -> None:
        super().__init__("in-order", len(rows), names=(content_hash(rows.tobytes()),))
        self.rows = rows

    def rows_of(self, epoch: int) -> IntArray:
        return self.rows


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

    A row's weight is 1 / (rows in its cell) up to a factor, as in RWY, RWG (BalancingGroups), WILDS's loader
    that is uniform over groups, DomainBed's class-balanced one and RLSbench's RS. An epoch is as long as the
    data unless `epoch_size` is given.
    """

    def __init__(
        self, cells: Cells, *, kind: str, epoch_size: int | None = None, seed: int = 0, names: Names = ()
    ) -> None:
        total = cells.n_rows if epoch_size is None else epoch_size
        super().__init__(kind, total, seed=seed, names=names, dropped=cells.dropped)
        self.cells = cells

    @property
    def weights(self) -> FloatArray:
        """Each row's weight, 1 on average: how often it is drawn, beside a plain shuffle."""
        return row_weights(self.cells)

    def rows_of(self, epoch: int) -> IntArray:
        generator = self._rng("rows", epoch)
        return self.cells.draw(generator.integers(len(self.cells), size=self.total), generator)


class PseudoBalanced(Reweighted):
    """Balances what a classifier now predicts: RS for target data in RLSbench (Algorithm 1, step 4).

    `cells` are those of the first predictions. Give new ones before each epoch with `set_pseudo_labels`, the
    same on every rank; they are not part of `state`: after an interruption, give them again. A class that is
    never predicted is an error unless the cells were made with `on_empty="drop"`, as RLSbench's code does.
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
