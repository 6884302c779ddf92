"""The processes that share an epoch: every rank gets equally many items, in turns."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError


@dataclass(frozen=True)
class Ranks:
    """One of `world` ranks that take turns in the order of an epoch.

    Each item goes to one rank. Where the numbers do not divide, the first items of the epoch come again at
    its end; with `drop_last` the last ones are left out instead.
    """

    rank: int = 0
    world: int = 1
    drop_last: bool = False

    @classmethod
    def of(cls, rank: int | None = None, world: int | None = None, *, drop_last: bool = False) -> Ranks:
        """The ranks that were given; else those of `torch.distributed` if it is set up, or 0 of 1."""
        if rank is None and world is None:
            rank, world = 0, 1
            distributed = sys.modules.get("torch.distributed")  # who has not imported it has not set it up
            if distributed is not None and distributed.is_available() and distributed.is_initialized():
                rank, world = distributed.get_rank(), distributed.get_world_size()
        if rank is None or world is None or not 0 <= rank < world:
            raise InputError(f"give rank and world together, 0 <= rank < world; got {rank} and {world}")
        return cls(rank, world, drop_last)

    def size(self, total: int) -> int:
        """How many of `total` items each rank gets."""
        return total // self.world if self.drop_last else -(-total // self.world)

    def share(self, items: IntArray) -> IntArray:
        """The items that this rank gets."""
        return np.resize(items, self.size(len(items)) * self.world)[self.rank :: self.world]
