"""DANN: l_s + trade_off `losses.dann` behind `losses.reverse_gradient` (Ganin et al., JMLR 2016)."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup
from shiftdata.baselines.networks import Network

#: Factors of rows: of the source's loss, and of the domain loss of source and target.
Importance: TypeAlias = tuple[Tensor, Tensor, Tensor]


def discriminator(size: int, width: int, dropout: float) -> nn.Sequential:
    """Return two hidden layers and one logit a row."""
    layers: list[nn.Module] = []
    for inputs in (size, width):
        layers += [nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))


def both_features(method: Method, batch: Batch, joint: float) -> tuple[Tensor, Tensor]:
    """Return the features of source and target, of one forward pass or of two."""
    if not joint:
        return method.network.features(batch.x), method.network.features(batch.unlabelled)
    both = method.network.features(torch.cat([batch.x, batch.unlabelled]))
    return both[: len(batch.x)], both[len(batch.x) :]


class DANN(Method):
    """Domain-adversarial training: the features hide from a discriminator which domain a row is of."""

    needs = frozenset({"target"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    trade_off = Hyper(1.0, low=0.01, high=100.0, log=True, source="Transfer-Learning-Library; DomainBed")
    slope = Hyper(10.0, source="Ganin et al.: total steps as T")
    width = Hyper(256, low=64, high=1024, log=True, source="DomainBed; RLSbench: 1024")
    dropout = Hyper(0.5, choices=(0.0, 0.1, 0.5), source="RLSbench; DomainBed's choices")
    joint = Hyper(1, choices=(0, 1), source="Transfer-Learning-Library, RLSbench: 1; SMA: 0")
    #: The variants whose adversary is SMA's.
    sma: ClassVar[tuple[str, ...]] = ("code",)

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.discriminator = discriminator(self.read_size(), int(self.width), self.dropout)

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = both_features(self, batch, self.joint)
        logits, logits_target = self.network.head(z), self.network.head(z_target)
        importance = self.importance(batch, logits, logits_target)
        fitted = importance[0] * losses.cross_entropies(logits, batch.y)
        read = torch.cat([self.read(z, logits), self.read(z_target, logits_target)])
        sma = self.variant in self.sma
        coefficient = 1.0 if sma else losses.reversal_schedule(batch.progress, self.slope)
        judged = self.discriminator(losses.reverse_gradient(read, coefficient))
        source, target = judged[: len(z)], judged[len(z) :]
        domain = losses.dann(source, target, batch.weight, *importance[1:], "code" if sma else "fixed")
        return losses.mean(fitted, batch.weight) + self.trade_off * domain

    def read_size(self) -> int:
        """Return how many numbers the discriminator reads."""
        return self.sizes.features

    def read(self, z: Tensor, logits: Tensor) -> Tensor:
        """Return what the discriminator reads of each row."""
        return z

    def importance(self, batch: Batch, logits: Tensor, logits_target: Tensor) -> Importance:
        """Return how much rows weigh, 1 but for CDAN+E and IW-DANN."""
        ones = torch.ones_like(batch.weight)
        return ones, ones, torch.ones_like(logits_target[:, 0])
