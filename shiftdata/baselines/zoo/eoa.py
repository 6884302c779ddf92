"""EoA: the running mean of the weights, and the sum of several runs' logits (Arpit et al., NeurIPS 2022).

The mean is validated and predicted with, never trained on. An ensemble is `sum(run.scores for run in runs)`,
of say three sets of hyper-parameters, two seeds each.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from shiftdata.baselines.method import Hyper, Setup
from shiftdata.baselines.methods.averages import Averaged
from shiftdata.baselines.methods.batch_norm import batch_norms
from shiftdata.losses import WeightAverage


class EoA(Averaged):
    """Any method, validated and used with `losses.WeightAverage` of its weights and batch norm's statistics.

    `code` (the port to DomainBed-v2) averages parameters alone; statistics are the last ones.
    """

    variants = ("fixed", "code")
    start = Hyper(100, low=1, high=1000, log=True, source="Arpit et al.: 100 of 5,000 steps")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.average = WeightAverage(self.averaged(), int(self.start))

    def averaged(self) -> list[Tensor]:
        tensors = super().averaged()
        if self.own_variant == "fixed":
            for layer in batch_norms(self.network):
                tensors += [each for each in (layer.running_mean, layer.running_var) if each is not None]
        return tensors

    def predict(self, x: Tensor) -> Tensor:
        with self.average.applied(self.averaged()):
            return super().predict(x)

    def predict_source(self, x: Tensor) -> Tensor:
        with self.average.applied(self.averaged()):
            return super().predict_source(x)
