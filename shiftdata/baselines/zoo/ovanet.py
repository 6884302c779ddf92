"""OVANet: ERM + `losses.ovanet` + entropy `losses.entropy` (Saito and Saenko, ICCV 2021)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup
from shiftdata.baselines.networks import Network


class OVANet(Method):
    """One-versus-all networks: each class has a boundary of its own, beyond which rows are unknown."""

    needs = frozenset({"target", "unknown"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    entropy = Hyper(0.1, low=0.01, high=1.0, log=True, source="OVANet: .1; SMA: 1", variants={"code": 1.0})

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        rows = nn.Linear(sizes.features, 2 * sizes.classes, bias=False)
        self.open = nn.Sequential(rows, nn.Unflatten(1, (2, sizes.classes)))

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        fitted = losses.cross_entropy(self.network.head(z), batch.y, batch.weight)
        fitted = fitted + losses.ovanet(self.open(z), batch.y, batch.weight)
        return fitted + self.entropy * losses.entropy(self.open(z_target)).mean()

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        if self.variant == "fixed":
            weight = self.open.get_parameter("0.weight")  # its rows measure an angle
            weight.copy_(normalize(weight, dim=1))

    def predict(self, x: Tensor) -> Tensor:
        """Return the first head's logits, and one of unknown."""
        z = self.network.features(x)
        logits: Tensor = self.network.head(z)
        return losses.with_unknown(logits, losses.ovanet_unknown(logits, self.open(z)))
