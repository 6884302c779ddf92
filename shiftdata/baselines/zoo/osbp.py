"""OSBP: l_s + trade_off `losses.osbp` of a head with one output more (Saito et al., ECCV 2018).

`code` (SMA): two moves of the optimiser a step, one for each loss.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from shiftdata import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Hyper, Method, Setup


class OSBP(Method):
    """Open-set adaptation by back-propagation: one output more, for rows of no class that is known."""

    needs = frozenset({"target", "unknown"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="Saito et al.: 1")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.head = nn.Linear(known.features, known.classes + 1)

    def loss(self, batch: Batch) -> Tensor:
        return self.fitted(batch) + self.boundary(batch)

    def fitted(self, batch: Batch) -> Tensor:
        """Return the source's loss."""
        return losses.cross_entropy(self.predict(batch.x), batch.y, batch.weight)

    def boundary(self, batch: Batch) -> Tensor:
        """Return the target's loss."""
        return self.trade_off * losses.osbp(
            self.head(losses.reverse_gradient(self.network.features(batch.unlabelled)))
        )

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        if self.variant == "fixed":
            return super().step(batch, trainer)
        return trainer.descend(self.fitted(batch)) + trainer.descend(self.boundary(batch))

    def predict(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.network.features(x))
        return logits
