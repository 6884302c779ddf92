"""The order of an epoch: samplers of rows and of batches, and the ranks that share them.

A torch `DataLoader` takes them as `sampler=` or `batch_sampler=`, but they need no torch. An epoch is a
function of (seed, names, kind, epoch): it does not matter what was iterated before, or how often.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Generic, Self, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, hash64, rng

Item = TypeVar("Item")
#: Names that key the draws in addition to the seed: a dataset, a config.
Names: TypeAlias = Sequence[str | int]


class Keys(TypedDict, total=False):
    """The keys of a sampler's draws: a seed (default 0), and names."""

    seed: int
    names: Names


@dataclass(frozen=True)
class Ranks:
    """One of `world` ranks that take turns in the order of an epoch.

    Every rank gets equally many items. Where the numbers do not divide, the first items of the epoch come
    again at its end; with `drop_last` the last ones are left out instead.
    """

    rank: int = 0
    world: int = 1
    drop_last: bool = False

    @classmethod
    def of(cls, rank: int | None = None, world: int | None = None, *, drop_last: bool = False) -> Ranks:
        """Return the given ranks; else those of `torch.distributed` if it is set up, or 0 of 1."""
        if rank is None and world is None:
            rank, world = 0, 1
            distributed = sys.modules.get("torch.distributed")  # who has not imported it has not set it up
            if distributed is not None and distributed.is_available() and distributed.is_initialized():
                rank, world = distributed.get_rank(), distributed.get_world_size()
        if rank is None or world is None or not 0 <= rank < world:
            raise InputError(f"give rank and world together, 0 <= rank < world; got {rank} and {world}")
        return cls(rank, world, drop_last)

    def size(self, total: int) -> int:
        """Count the items of each rank among `total`."""
        return total // self.world if self.drop_last else -(-total // self.world)

    def share(self, items: IntArray) -> IntArray:
        """Return the items of this rank."""
        return np.resize(items, self.size(len(items)) * self.world)[self.rank :: self.world]


class EpochSampler(ABC, Generic[Item]):
    """The base of all samplers: epochs, ranks, a place to start from, and a small state.

    Each iteration that yields an item takes the next epoch, from 0 on, whether the one before ended or was
    left early. `set_epoch` chooses the epoch of the next iteration, and those after it go on from there.

    `total` are the items of an epoch over all ranks, `size` those of this rank. All ranks draw the same
    epochs.
    """

    def __init__(self, kind: str, total: int, *, seed: int = 0, names: Names = ()) -> None:
        if total < 1:
            raise InputError(f"the sampler {kind!r} would yield nothing: give it rows, or smaller batches")
        self.kind, self.total = kind, total
        self.seed, self.names = seed, tuple(names)
        self.ranks = Ranks.of()
        self._now = self._next = (0, 0)  # epoch and start: of the iteration begun last, and of the next

    @property
    def size(self) -> int:
        """Count the items of an epoch on this rank."""
        return self.ranks.size(self.total)

    def __len__(self) -> int:
        """Count the items of the next iteration."""
        return self.size - self._next[1]

    def __iter__(self) -> Iterator[Item]:
        # A generator, so that this runs at the first item: a DataLoader with workers makes two and uses one.
        self._now, self._next = self._next, (self._next[0] + 1, 0)
        yield from self.items_of(*self._now)

    @abstractmethod
    def items_of(self, epoch: int, start: int = 0) -> Iterator[Item]:
        """Yield the items of an epoch on this rank from number `start` on. Changes nothing."""

    def among(self, ranks: Ranks) -> Self:
        """Return the same sampler on other ranks."""
        shared = copy(self)
        shared.ranks = ranks
        if shared.size < 1:
            raise InputError(
                f"{self.kind!r}: drop_last leaves none of the {self.total:,} rows or batches of an epoch to "
                f"each of {ranks.world} ranks: lower batch_size, or leave out drop_last"
            )
        return shared

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Choose the epoch of the next iteration, and the item that it starts from.

        To go on after an interruption, `start` is the number of items that were used. A loader with workers
        draws ahead, so that only its user knows this number.
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
        """Let the next iteration yield what that of the `state` yielded, from its start."""
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
        """Return the row numbers of an epoch on all ranks, in order. Changes nothing."""

    def items_of(self, epoch: int, start: int = 0) -> Iterator[int]:
        yield from map(int, self.ranks.share(self.rows_of(epoch))[start:])


class InOrder(RowSampler):
    """Given rows in their order, the same in every epoch."""

    def __init__(self, rows: IntArray) -> None:
        super().__init__("in-order", len(rows), names=(content_hash(rows.tobytes()),))
        self.rows = rows

    def rows_of(self, epoch: int) -> IntArray:
        return self.rows


class FixedRows(RowSampler):
    """Rows that are chosen once and shuffled in every epoch."""

    def __init__(self, rows: IntArray, *, kind: str = "shuffle", **keys: Unpack[Keys]) -> None:
        super().__init__(kind, len(rows), **keys)
        self.rows = rows

    def rows_of(self, epoch: int) -> IntArray:
        return self._rng("order", epoch).permutation(self.rows)


class Batches(EpochSampler[list[int]]):
    """The rows of a sampler in lists of `batch_size`; for `DataLoader(batch_sampler=...)`.

    Epoch, start and state are those of the batches; the sampler inside keeps its own. Each rank has the
    batches of its share of the sampler's rows.
    """

    def __init__(self, sampler: RowSampler, batch_size: int) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        super().__init__(sampler.kind, sampler.total, seed=sampler.seed, names=sampler.names)
        self.sampler, self.batch_size, self.ranks = sampler, batch_size, sampler.ranks

    @property
    def size(self) -> int:
        rows = self.ranks.size(self.total)
        return rows // self.batch_size if self.ranks.drop_last else -(-rows // self.batch_size)

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        rows = self.ranks.share(self.sampler.rows_of(epoch))
        for number in range(start, self.size):
            yield rows[number * self.batch_size : (number + 1) * self.batch_size].tolist()

    def _identity(self) -> tuple[str | int, ...]:
        return (*super()._identity(), self.batch_size)


#: A sampler of rows one by one, or of lists of them.
Sampler: TypeAlias = RowSampler | EpochSampler[list[int]]
