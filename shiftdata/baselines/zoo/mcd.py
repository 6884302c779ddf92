"""MCD: features on which two heads agree about the target, by `losses.mcd` (Saito et al., CVPR 2018)."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, TrainerAPI
from shiftdata.baselines.networks import Network


class MCD(Method):
    """Maximum classifier discrepancy: heads differ on the target, the encoder learns not to let them."""

    several_moves = True
    needs = frozenset({"target"})
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="authors: 1; Transfer-Learning-Library: 10")
    moves = Hyper(4, choices=(1, 2, 3, 4), source="Saito et al.: 2 to 4 of digits, 4 of VisDA")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.other = copy.deepcopy(network.head)
        for module in self.other.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()  # equal heads would never disagree

    def step(self, batch: Batch, trainer: TrainerAPI) -> Tensor:
        # Without a gradient the optimiser leaves parameters alone, momenta and weight decay notwithstanding.
        heads = nn.ModuleList([self.network.head, self.other])
        fitted = trainer.descend(self.fitted(self.network.features(batch.x), batch))
        with torch.no_grad():
            z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        trainer.descend(self.fitted(z, batch) - self.apart(z_target))
        heads.requires_grad_(False)
        for _ in range(int(self.moves)):
            trainer.descend(self.apart(self.network.features(batch.unlabelled)))
        heads.requires_grad_(True)
        return fitted

    def fitted(self, z: Tensor, batch: Batch) -> Tensor:
        """Return both heads' loss on the source."""
        heads = (self.network.head, self.other)
        first, second = (losses.cross_entropy(head(z), batch.y, batch.weight) for head in heads)
        return first + second

    def apart(self, z_target: Tensor) -> Tensor:
        """Return how far the heads lie apart on the target."""
        return self.trade_off * losses.mcd(self.network.head(z_target), self.other(z_target))

    def predict(self, x: Tensor) -> Tensor:
        z = self.network.features(x)
        logits: Tensor = self.network.head(z) + self.other(z)
        return logits
