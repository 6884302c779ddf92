"""Means of the weights of each stage that trains the whole network; SWAD.

The mean is put into the network before the next stage begins, unless that begins from the first weights, and
before the inner method finishes: DFR refits the head of the mean.
"""

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.averages import Average
from shiftdata.baselines.method import Batch, Data, Hyper, Method, Stage, Wrapper
from shiftdata.baselines.methods.batch_norm import batch_statistics
from shiftdata.baselines.networks import Network, batch_norms
from shiftdata.errors import InputError

#: The most batches from which statistics of batch norm are taken.
BATCHES = 500


@torch.no_grad()
def renew_statistics(trainer: Trainer) -> None:
    """Pool batch norm's statistics over batches of the training set; frozen ones stay."""
    layers = batch_norms(trainer.network)
    if trainer.training.frozen_norm or not layers:
        return
    rows = trainer.data.rows[trainer.drawn(0)]
    size = min(trainer.training.batch, len(rows))
    rows = rows[: BATCHES * size]
    rows = rows[:-1] if len(rows) % size == 1 else rows  # batch norm has no statistics of one row
    if not len(rows):
        return
    for layer in layers:
        layer.reset_running_stats()
    with batch_statistics(trainer.network, pooled=True):
        for x in trainer.read(rows, size):
            trainer.network(x)


def statistics(network: Network) -> list[Tensor]:
    """Return the running means and variances of batch norm."""
    every = [each for layer in batch_norms(network) for each in (layer.running_mean, layer.running_var)]
    return [each for each in every if each is not None]


class Averaged(Wrapper):
    """A wrapper with an average of weights, over the stages that train the whole network (`whole`)."""

    average: Average

    def __init__(self, inner: Method, **given: float) -> None:
        super().__init__(inner, **given)
        if any(isinstance(part, Averaged) for part in inner.modules()):
            raise InputError("swad, eoa, ema and wise all average the weights: take one of them")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        weights = {id(weight) for weight in network.parameters() if weight.requires_grad}
        self.whole = {stage.name for stage in self.stages() if weights <= set(map(id, self.trained(stage)))}

    def averaged(self) -> list[Tensor]:
        """Return the tensors to average: parameters of the network, and of the method's own modules."""
        return list(self.inner.parameters())

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if not stage.fresh:
            self.place(trainer)
        self.average.restart()
        super().begin(stage, trainer)

    def after_step(self, batch: Batch) -> None:
        super().after_step(batch)
        if batch.stage in self.whole:
            self.average.update(self.averaged())

    def finish(self, trainer: Trainer) -> None:
        self.place(trainer)
        super().finish(trainer)

    def place(self, trainer: Trainer) -> bool:
        """Put the mean into the network, if there is one; nothing is averaged after it in this stage."""
        placed = self.average.copy_to(self.averaged())
        if placed:
            self.average.restart()
        return placed


class SWAD(Averaged):
    """Any method, its weights averaged by `losses.SWAD` in a valley of the validation loss.

    Cha et al., NeurIPS 2021. It needs `Training(evaluate_every=...)`. In a run's `history`, `select_loss` is
    of the weights as they are; predictions are those of the mean, as if training ended at that step.
    """

    code_version = 2  # 2: evaluations predict with the mean
    average: losses.SWAD
    converge = Hyper(3, low=1, high=10, source="Cha et al.: N_s")
    tolerance = Hyper(6, low=1, high=20, source="Cha et al.: N_e")
    ratio = Hyper(0.3, low=0.0, high=1.0, source="Cha et al.: r")

    def __init__(self, inner: Method, **given: float) -> None:
        super().__init__(inner, **given)
        self.needs = inner.needs | {"select"}

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.average = losses.SWAD(self.averaged(), int(self.converge), int(self.tolerance), self.ratio)

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if not trainer.training.evaluate_every:
            raise InputError("swad needs the validation loss: set evaluate_every above 0")
        super().begin(stage, trainer)

    def evaluated(self, loss: float) -> None:
        super().evaluated(loss)
        self.average.evaluated(loss)

    def place(self, trainer: Trainer) -> bool:
        placed = super().place(trainer)
        if placed:
            renew_statistics(trainer)
        return placed
