"""StableNet: rows weighed so that features become independent (Zhang et al., CVPR 2021)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup
from shiftdata.baselines.networks import Network


class StableNet(Method):
    """ERM with the weights of `losses.StableNet`; `code` draws features as released."""

    variants = ("fixed", "code")
    weight_steps = Hyper(20, choices=(20,), source="the authors: epochb")
    rate = Hyper(1.0, low=0.1, high=10.0, log=True, source="the authors: lrbl 1, no range")
    penalty = Hyper(70.0, low=10.0, high=700.0, log=True, source="the authors: lambdap 70, no range")
    memory = Hyper(128, choices=(128,), source="the authors: n_feature, their batch")
    keep = Hyper(0.9, low=0.5, high=0.99, source="the authors: presave_ratio .9, no range")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        numbers = int(self.weight_steps), self.rate, self.penalty, int(self.memory), self.keep
        self.weights = losses.StableNet(sizes.features, *numbers, released=self.variant == "code")

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        weight = self.weights.update(z) if self.weight_steps else None
        return losses.cross_entropy(self.network.head(z), batch.y, weight)
