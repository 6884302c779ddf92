"""CDAN: DANN whose discriminator reads `losses.cdan_map` (Long et al., NeurIPS 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Setup
from shiftdata.baselines.methods.dann import DANN, Importance
from shiftdata.baselines.networks import Network

LARGEST, PROJECTED = 4096, 1024


class CDAN(DANN):
    """Conditional domain-adversarial training: the discriminator sees the prediction too; also CDANN."""

    entropy = Hyper(0, choices=(0, 1), source="Long et al.: CDAN, and 1 for CDAN+E")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        if self.read_size() < sizes.features * sizes.classes:
            self.register_buffer("of_z", torch.randn(sizes.features, PROJECTED))
            self.register_buffer("of_p", torch.randn(sizes.classes, PROJECTED))

    def read_size(self) -> int:
        size = self.sizes.features * self.sizes.classes
        return PROJECTED if size > LARGEST else size

    def read(self, z: Tensor, logits: Tensor) -> Tensor:
        given = logits if self.variant in self.sma else logits.softmax(1).detach()
        matrices = dict(self.named_buffers(recurse=False))
        return losses.cdan_map(z, given, (matrices["of_z"], matrices["of_p"]) if matrices else None)

    def importance(self, batch: Batch, logits: Tensor, logits_target: Tensor) -> Importance:
        fitted, source, target = super().importance(batch, logits, logits_target)
        if not self.entropy:
            return fitted, source, target
        weight = losses.cdan_weights(torch.cat([logits, logits_target]))
        return fitted, source * weight[: len(logits)], target * weight[len(logits) :]
