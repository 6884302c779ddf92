"""Which examples make which batch: a function of sampler, seed, epoch and rank, never of workers."""

from __future__ import annotations

import sys
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.errors import InputError
from shiftdata.sampling import Batches, GroupBatches, Sampler
from shiftdata.stable import content_hash, hash64

Positions: TypeAlias = NDArray[np.int64]


class Order:
    """The batches of each epoch, on one of `world` ranks.

    Ranks take turns in the sampler's order: every rank has equally many batches, each example is on one
    rank. Where the numbers do not divide, the order's first examples come again at its end; with `drop_last`
    the last are left out instead, as is a batch that is not full. The batches of a sampler that makes them
    stay whole. `sampler` may be positions, which come in their order in every epoch.
    """

    def __init__(
        self,
        sampler: Sampler | Positions,
        batch_size: int,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if isinstance(sampler, Batches):
            raise InputError(
                f"the sampler {sampler.kind!r} makes batches: leave out its batch_size, the loader has one"
            )
        self.sampler = sampler
        self.unit = sampler.batch_size if isinstance(sampler, GroupBatches) else 1
        self.batch_size = batch_size if self.unit == 1 else self.unit
        self.drop_last = drop_last
        self.rank = rank
        self.world = world
        units = len(sampler) if isinstance(sampler, np.ndarray) else sampler.size
        self.each = units // world if drop_last else -(-units // world)
        examples = self.each * self.unit
        self.batches = examples // self.batch_size if drop_last else -(-examples // self.batch_size)
        if not self.batches:
            raise InputError(
                f"an epoch of {units * self.unit:,} examples over {world} ranks has no batch of "
                f"{self.batch_size}: lower batch_size, or leave out drop_last"
            )

    @property
    def key(self) -> int:
        """A hash of what the order depends on, the epoch and the rank left out."""
        given = self.sampler
        of = content_hash(given.tobytes()) if isinstance(given, np.ndarray) else str(given.state["key"])
        return hash64("order", of, self.batch_size, int(self.drop_last), self.world)

    def of(self, epoch: int) -> list[Positions]:
        units = self._units(epoch)
        mine = np.resize(units, (self.each * self.world, self.unit))[self.rank :: self.world].ravel()
        starts = range(0, self.batches * self.batch_size, self.batch_size)
        return [mine[start : start + self.batch_size] for start in starts]

    def _units(self, epoch: int) -> Positions:
        """What ranks take turns in: examples, or the sampler's own batches; one a line."""
        if isinstance(self.sampler, np.ndarray):
            return self.sampler[:, None]
        if isinstance(self.sampler, GroupBatches):
            return np.array(list(self.sampler.items_of(epoch)), dtype=np.int64)
        return self.sampler.rows_of(epoch)[:, None]


def place_in_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """The rank and the number of ranks: as given, as `torch.distributed` says if it is set up, or 0 of 1."""
    if rank is None and world is None:
        distributed = sys.modules.get("torch.distributed")  # who has not imported it has not set it up
        if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
            return 0, 1
        return distributed.get_rank(), distributed.get_world_size()
    if rank is None or world is None or not 0 <= rank < world:
        raise InputError(f"give rank and world together, 0 <= rank < world; got {rank} and {world}")
    return rank, world
