"""BN-adapt and TENT: batch norm takes the target's statistics after training (Schneider 2020; Wang 2021).

Both predict with statistics that are pooled over a pass, so that an answer does not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import ClassVar

import torch
from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.averages import flat, in_place
from shiftdata.baselines.method import Batch, Data, Hyper, Stage
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network, batch_norms, evaluating


@contextmanager
def batch_statistics(network: nn.Module, pooled: bool) -> Iterator[None]:
    """Switch to eval mode but for batch norm, which takes and collects the statistics of batches."""
    layers = batch_norms(network)
    momenta = [layer.momentum for layer in layers]
    with evaluating(network):
        for layer in layers:
            layer.train()
            layer.momentum = None if pooled else layer.momentum
        try:
            yield
        finally:
            for layer, momentum in zip(layers, momenta, strict=True):
                layer.momentum = momentum


class BNAdapt(ERM):
    """ERM, then a pass over the target that renews the statistics of batch norm."""

    needs = frozenset({"target", "batch-norm"})
    variants = ("fixed", "code")
    code_version: ClassVar[int] = 2  # 2: evaluations predict with the adapted layers, source rows without

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("source", torch.zeros_like(flat(self._layers())))
        self.register_buffer("adapted", torch.tensor(False))

    def stages(self) -> Sequence[Stage]:
        return [Stage("train"), Stage("adapt", passes=1, adapts=True)]

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if stage.adapts and not self.get_buffer("adapted"):
            self.get_buffer("source").copy_(flat(self._layers()))
            self.get_buffer("adapted").fill_(True)
            for layer in batch_norms(self.network) if self.variant == "fixed" else ():
                layer.reset_running_stats()

    def trained(self, stage: Stage) -> list[nn.Parameter]:
        return [] if stage.adapts else super().trained(stage)

    def reads_target(self, stage: Stage) -> bool:
        return stage.adapts

    def loss(self, batch: Batch) -> Tensor:
        if batch.stage == "train":
            return super().loss(batch)
        is_tent = batch.stage == "tent"
        with batch_statistics(self.network, self.variant == "fixed"), torch.set_grad_enabled(is_tent):
            logits = self.network(batch.unlabelled)
            return losses.tent(logits) if is_tent else torch.zeros(())

    def predict_source(self, x: Tensor) -> Tensor:
        source, layers = self.get_buffer("source"), self._layers()
        with in_place(source, layers) if self.get_buffer("adapted") else nullcontext():
            return super().predict_source(x)

    def _layers(self) -> list[Tensor]:
        """Return what adapting moves: the statistics of batch norm, its scale and shift."""
        names = ("running_mean", "running_var", "weight", "bias")
        tensors = [getattr(layer, name) for layer in batch_norms(self.network) for name in names]
        return [tensor for tensor in tensors if tensor is not None]


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
        return [weight for layer in layers for weight in layer.parameters(recurse=False)]

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        if batch.stage == "tent":
            for group in trainer.optimizer.param_groups:  # not the training's: it would undo the training
                group["lr"], group["weight_decay"] = self.rate, 0.0
        return super().step(batch, trainer)
