"""What SWAD and EoA share: means of the weights of each stage that trains the whole network.

The mean is put into the network before the next stage begins, unless that begins from the first weights, and
before the inner method finishes: DFR refits the head of the mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from shiftdata.baselines.losses import EMA, SWAD, WeightAverage
from shiftdata.baselines.method import Batch, Method, Setup, Stage, TrainerAPI, Wrapper
from shiftdata.baselines.methods.batch_norm import batch_norms, batch_statistics
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError

#: Batches that the statistics of batch norm are taken of, at most.
BATCHES = 500


@torch.no_grad()
def renew_statistics(trainer: TrainerAPI) -> None:
    """Pool batch norm's statistics over batches of the training set; frozen ones stay."""
    layers = batch_norms(trainer.network)
    if trainer.training.frozen_norm or not layers:
        return
    rows = trainer.data.rows[trainer.drawn(0)]
    size = min(trainer.training.batch or len(rows), len(rows))
    rows = rows[: BATCHES * size]
    rows = rows[:-1] if len(rows) % size == 1 else rows  # batch norm has no statistics of one row
    if not len(rows):
        return
    for layer in layers:
        layer.reset_running_stats()
    with batch_statistics(trainer.network, pooled=True):
        for x in trainer.read(rows, size):
            trainer.network(x)


class Averaged(Wrapper):
    """A wrapper with an average of weights."""

    average: SWAD | WeightAverage | EMA
    _is_active: bool | None = None

    def __init__(self, inner: Method, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(inner, variant=variant, **given)
        if any(isinstance(part, Averaged) for part in inner.modules()):
            raise InputError("swad, eoa and ema all average the weights: take one of them")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.register_buffer("active", torch.tensor(False))
        self.register_load_state_dict_post_hook(lambda *_: setattr(self, "_is_active", None))  # type: ignore[no-untyped-call]

    def averaged(self) -> list[Tensor]:
        """Return what is averaged: the parameters of the network, and of what the method adds to it."""
        return list(self.inner.parameters())

    def begin(self, stage: Stage, trainer: TrainerAPI) -> None:
        if not stage.fresh:
            self.place(trainer)
        self.average.restart()
        moved = {id(parameter) for parameter in self.inner.trained(stage)}
        whole = all(id(weight) in moved for weight in self.network.parameters() if weight.requires_grad)
        self.get_buffer("active").fill_(whole)
        self._is_active = None
        super().begin(stage, trainer)

    def after_step(self, batch: Batch) -> None:
        super().after_step(batch)
        if self._is_active is None:  # asked once: every look at a GPU's memory waits for it
            self._is_active = bool(self.get_buffer("active"))
        if self._is_active:
            self.average.update(self.averaged())

    def finish(self, trainer: TrainerAPI) -> None:
        self.place(trainer)
        super().finish(trainer)

    def place(self, trainer: TrainerAPI) -> bool:
        """Put the mean into the network, if there is one; nothing is averaged after it in this stage."""
        placed = self.average.copy_to(self.averaged())
        if placed:
            self.average.restart()
        return placed
