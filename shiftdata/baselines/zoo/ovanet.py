"""OVANet: ERM + `losses.ovanet` + entropy `losses.ovanet_entropy` (Saito and Saenko, ICCV 2021).

The second head has no bias, and its rows have length 1 after each step: it measures an angle. `code` (SMA):
any length.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from shiftdata import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup


class OVANet(Method):
    """One-versus-all networks: each class has a boundary of its own, beyond which rows are unknown."""

    needs = frozenset({"target", "unknown"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    entropy = Hyper(0.1, low=0.01, high=1.0, log=True, source="OVANet: .1; SMA: 1", variants={"code": 1.0})

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.open = nn.Linear(known.features, 2 * known.classes, bias=False)

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        fitted = losses.cross_entropy(self.network.head(z), batch.y, batch.weight)
        fitted = fitted + losses.ovanet(self.open_logits(z), batch.y, batch.weight)
        return fitted + self.entropy * losses.ovanet_entropy(self.open_logits(z_target))

    def open_logits(self, z: Tensor) -> Tensor:
        """Return the second head's logits, rows x 2 x classes."""
        logits: Tensor = self.open(z).unflatten(1, (2, -1))
        return logits

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        if self.variant == "fixed":
            self.open.weight.copy_(normalize(self.open.weight, dim=1))

    def predict(self, x: Tensor) -> Tensor:
        """Return the first head's logits, and one of unknown."""
        z = self.network.features(x)
        logits: Tensor = self.network.head(z)
        return losses.with_unknown(logits, losses.ovanet_unknown(logits, self.open_logits(z)))
