"""BN-adapt and TENT: batch norm takes the target's statistics after training (Schneider 2020; Wang 2021).

    BN-adapt   one pass over the target, no gradient: running mean and variance become the target's
    TENT       then one pass that minimises mean H(p), by the scale and shift of batch-norm layers alone

Only batch norm is in train mode meanwhile: dropout stays off. Statistics are pooled over the pass (momentum
None): the mean exactly, the variance within batches. Both predict with the pooled statistics, so that a row's
answer does not depend on its neighbours; TENT's authors predict online, with those of the batch. Rows of the
source, such as the validation set, are predicted with the layers as the training left them.

`code` (RLSbench): momentum .1 from the source's statistics on, so that about 30 batches count, and a small
target is half adapted; TENT does not begin with BN-adapt, though its paper says so. (It also moves layer
norm, and leaves one-dimensional batch norm out. Not here.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Hyper, Setup, Stage
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import evaluating
from shiftdata.errors import InputError
from shiftdata.losses.averages import flat, in_place


def batch_norms(network: nn.Module) -> list[_BatchNorm]:
    """The layers with statistics of a batch."""
    return [one for one in network.modules() if isinstance(one, _BatchNorm)]


@contextmanager
def batch_statistics(network: nn.Module, pooled: bool) -> Iterator[None]:
    """Eval mode but for batch norm, which takes and collects the statistics of batches."""
    layers = batch_norms(network)
    momenta = [one.momentum for one in layers]
    with evaluating(network):
        for layer in layers:
            layer.train()
            layer.momentum = None if pooled else layer.momentum
        try:
            yield
        finally:
            for layer, momentum in zip(layers, momenta, strict=True):
                layer.momentum = momentum


def entropies(scores: Tensor) -> Tensor:
    """The entropy of each row's prediction."""
    logs = torch.log_softmax(scores, 1)
    return -(logs.exp() * logs).sum(1)


class BNAdapt(ERM):
    """ERM, then a pass over the target that renews the statistics of batch norm."""

    needs = frozenset({"target", "batch-norm"})
    variants = ("fixed", "code")
    code_version: ClassVar[int] = 2  # 2: evaluations predict with the adapted layers, source rows without

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("source", torch.zeros_like(flat(self._layers())))
        self.register_buffer("adapted", torch.tensor(False))

    def stages(self) -> Sequence[Stage]:
        return [Stage("train"), Stage("adapt", passes=1, adapts=True)]

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if stage.adapts and not self.get_buffer("adapted"):
            self.get_buffer("source").copy_(flat(self._layers()))
            self.get_buffer("adapted").fill_(True)

    def trained(self, stage: Stage) -> list[nn.Parameter]:
        return super().trained(stage) if stage.name == "train" else []

    def reads_target(self, stage: Stage) -> bool:
        return stage.name != "train"

    def loss(self, batch: Batch) -> Tensor:
        if batch.stage == "train":
            return super().loss(batch)
        pooled = self.variant == "fixed"
        if pooled and batch.stage == "adapt" and batch.step == 0:
            for layer in batch_norms(self.network):
                layer.reset_running_stats()
        if len(batch.unlabelled) < 2:
            raise InputError(f"{type(self).__name__} takes statistics of target batches: give 2 rows or more")
        with batch_statistics(self.network, pooled):
            return self.on_target(batch)

    def on_target(self, batch: Batch) -> Tensor:
        """The loss on a batch of the target, whose statistics are taken meanwhile."""
        with torch.no_grad():
            self.network(batch.unlabelled)
        return torch.zeros(())

    def predict_source(self, x: Tensor) -> Tensor:
        with self._source_in_place():
            return super().predict_source(x)

    def _source_in_place(self) -> AbstractContextManager[None]:
        return (
            in_place(self.get_buffer("source"), self._layers())
            if self.get_buffer("adapted")
            else nullcontext()
        )

    def _layers(self) -> list[Tensor]:
        """What adapting moves: the statistics of batch norm, its scale and shift."""
        tensors = [
            (one.running_mean, one.running_var, one.weight, one.bias) for one in batch_norms(self.network)
        ]
        return [one for layer in tensors for one in layer if one is not None]


class TENT(BNAdapt):
    """BN-adapt, then less entropy on the target by the scale and shift of batch norm."""

    rate = Hyper(1e-3, low=1e-5, high=1e-2, log=True, source="Wang et al., with Adam; RLSbench: 1e-4, SGD")

    def stages(self) -> Sequence[Stage]:
        before = super().stages() if self.variant == "fixed" else [Stage("train")]
        return [*before, Stage("tent", passes=1, adapts=True)]

    def trained(self, stage: Stage) -> list[nn.Parameter]:
        if stage.name != "tent":
            return super().trained(stage)
        layers = batch_norms(self.network)
        return [one for layer in layers for one in (layer.weight, layer.bias) if one is not None]

    def step(self, batch: Batch, trainer: Trainer) -> float:
        if batch.stage == "tent":
            for group in trainer.optimizer.param_groups:  # not the training's: it would undo the training
                group["lr"], group["weight_decay"] = self.rate, 0.0
        return super().step(batch, trainer)

    def on_target(self, batch: Batch) -> Tensor:
        if batch.stage == "adapt":
            return super().on_target(batch)
        return entropies(self.network(batch.unlabelled)).mean()
