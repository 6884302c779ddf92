"""IW-DANN, IW-CDAN: source rows weighed by `losses.ClassWeights` (Tachet des Combes et al., NeurIPS 2020)."""

from __future__ import annotations

import math
from typing import ClassVar

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Setup
from shiftdata.baselines.methods.cdan import CDAN
from shiftdata.baselines.methods.dann import DANN, Importance
from shiftdata.baselines.networks import Network


class IWDANN(DANN):
    """DANN with source rows weighed by the ratio of label shares that predictions point to."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper", "code")
    sma = ()
    momentum = Hyper(0.5, low=0.0, high=1.0, source="Tachet des Combes et al.; RLSbench")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.weights = losses.ClassWeights(sizes.classes, self.momentum)

    def importance(self, batch: Batch, logits: Tensor, logits_target: Tensor) -> Importance:
        fitted, source, target = super().importance(batch, logits, logits_target)
        self.weights.update(logits, batch.y, logits_target, batch.weight)
        weight = self.weights(batch.y)
        weight = weight.mean().expand_as(weight) if self.variant == "code" else weight
        return fitted if self.variant == "paper" else weight, source * weight, target

    def after_step(self, batch: Batch) -> None:
        if (batch.step + 1) % math.ceil(self.sizes.rows / len(batch.x)) == 0:
            self.weights.renew()


class IWCDAN(IWDANN, CDAN):
    """CDAN with source rows weighed by the ratio of label shares that predictions point to."""
