"""Samplers of batches that are built cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

import numpy as np

from shiftdata.data.loading.order import EpochSampler, Keys
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling.cells import Cells

#: Batches drawn together; each stretch has its own generator, so that any batch is quickly reached.
STRETCH = 256


class CellBatches(EpochSampler[list[int]]):
    """Each batch: batch_size / domains rows of each domain, domain after domain, in the order of numbers.

    DomainBed's minibatches: a batch can be reshaped to (domains, rows, ...). Each row of a domain is drawn
    uniformly with replacement, as by DomainBed's infinite loaders, so that no domain runs out. A step is one
    batch; an epoch has floor(rows / batch_size) of them. Ranks take whole batches in turns.
    """

    def __init__(self, cells: Cells, *, batch_size: int, **keys: Unpack[Keys]) -> None:
        if batch_size < 1 or batch_size % len(cells):
            raise InputError(
                f"batch_size must be a multiple of the domains that have rows, both at least 1; got "
                f"{batch_size} and {len(cells)}"
            )
        if batch_size > cells.n_rows:
            raise InputError(f"batch_size {batch_size} is above the {cells.n_rows} rows: lower it")
        super().__init__("per-domain", cells.n_rows // batch_size, **keys)
        self.cells, self.batch_size = cells, batch_size

    def items_of(self, epoch: int, start: int = 0) -> Iterator[list[int]]:
        at, batches = -1, np.empty((0, self.batch_size), np.int64)
        of_batch = np.repeat(np.arange(len(self.cells)), self.batch_size // len(self.cells))
        for number in self.ranks.share(np.arange(self.total))[start:].tolist():
            stretch, place = divmod(number, STRETCH)
            if stretch != at:
                generator = self._rng("batches", epoch, stretch)
                together = min(STRETCH, self.total - stretch * STRETCH)
                rows = self.cells.draw(np.tile(of_batch, together), generator)
                at, batches = stretch, rows.reshape(-1, self.batch_size)
            yield batches[place].tolist()

    def _identity(self) -> tuple[str | int, ...]:
        return (*super()._identity(), self.batch_size, len(self.cells))
