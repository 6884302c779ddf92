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
from shiftdata.sampling.cells import Cells, Integers
from shiftdata.stable import hash64, rng

Item = TypeVar("Item")

#: What keys the draws beside the seed: a dataset, a config.
Names: TypeAlias = Sequence[str | int]

#: Rows turned into Python numbers at a time: one by one is slow, all at once takes much memory.
CHUNK = 65_536


class EpochSampler(ABC, Generic[Item]):
    """What all samplers share: an epoch, a place in it to start from, and a small state.

    Call `set_epoch` before each epoch, as for torch's own distributed sampler: without it, every epoch is
    the same. `kind` is the rule's name, `size` the number of items in an epoch, and `dropped` are the
    labels or groups without rows that `on_empty="drop"` left out.
    """

    def __init__(
        self, kind: str, size: int, *, seed: int = 0, names: Names = (), dropped: tuple[int, ...] = ()
    ) -> None:
        if size < 1:
            raise InputError(f"the sampler {kind!r} would yield nothing: give it rows, or smaller batches")
        self.kind = kind
        self.size = size
        self.seed = seed
        self.names = tuple(names)
        self.dropped = dropped
        self._epoch = 0
        self._start = 0

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
    def rows_of(self, epoch: int) -> Integers:
        """All row numbers of an epoch, in order. Changes nothing."""

    def items_of(self, epoch: int, start: int = 0) -> Iterator[int]:
        rows = self.rows_of(epoch)[start:]
        for first in range(0, len(rows), CHUNK):
            yield from rows[first : first + CHUNK].tolist()


class FixedRows(RowSampler):
    """Rows that are chosen once and shuffled in every epoch."""

    def __init__(
        self,
        rows: Integers,
        *,
        kind: str = "shuffle",
        seed: int = 0,
        names: Names = (),
        dropped: tuple[int, ...] = (),
    ) -> None:
        super().__init__(kind, len(rows), seed=seed, names=names, dropped=dropped)
        self.rows = rows

    def rows_of(self, epoch: int) -> Integers:
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

    def rows_of(self, epoch: int) -> Integers:
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
        self.cells = cells
        self.dropped = cells.dropped


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
        self.sampler = sampler
        self.batch_size = batch_size

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        rows = self.sampler.rows_of(epoch)
        for number in range(start, self.size):
            yield rows[number * self.batch_size : (number + 1) * self.batch_size].tolist()
