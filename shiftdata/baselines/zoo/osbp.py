"""OSBP: l_s + trade_off `losses.osbp` of a head with one output more (Saito et al., ECCV 2018)."""

from __future__ import annotations

from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup
from shiftdata.baselines.networks import Network


class OSBP(Method):
    """Open-set adaptation by back-propagation: one output more, for rows of no class that is known."""

    needs = frozenset({"target", "unknown"})
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="Saito et al.: 1")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.head = nn.Linear(sizes.features, sizes.classes + 1)

    def loss(self, batch: Batch) -> Tensor:
        fitted = losses.cross_entropy(self.predict(batch.x), batch.y, batch.weight)
        hidden = losses.reverse_gradient(self.network.features(batch.unlabelled))
        return fitted + self.trade_off * losses.osbp(self.head(hidden))

    def predict(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.network.features(x))
        return logits
