"""Methods whose features hide the domain from a discriminator.

DANN: l_s + trade_off `losses.dann` behind `losses.reverse_gradient` (Ganin et al., JMLR 2016).
CDAN: DANN whose discriminator reads `losses.cdan_map` (Long et al., NeurIPS 2018).
"""

from typing import ClassVar, TypeAlias

import torch
from torch import Tensor, nn

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Data, Hyper, Method
from shiftdata.baselines.networks import Network

#: Factors of source rows: of their own loss, and of the domain loss.
Importance: TypeAlias = tuple[Tensor, Tensor]


def discriminator(size: int, width: int, dropout: float) -> nn.Sequential:
    """Return two hidden layers and one logit a row."""
    layers: list[nn.Module] = []
    for inputs in (size, width):
        layers += [nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))


def both_features(method: Method, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the features of source and target, of one forward pass: batch norm sees both together."""
    both = method.network.features(torch.cat([batch.x, batch.unlabelled]))
    return both[: len(batch.x)], both[len(batch.x) :]


class DANN(Method):
    """Domain-adversarial training: the features hide a row's domain from a discriminator."""

    needs = frozenset({"target"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    trade_off = Hyper(1.0, low=0.01, high=100.0, log=True, source="Transfer-Learning-Library; DomainBed")
    slope = Hyper(10.0, source="Ganin et al.: total steps as T")
    width = Hyper(256, low=64, high=1024, log=True, source="DomainBed; RLSbench: 1024")
    dropout = Hyper(0.5, choices=(0.0, 0.1, 0.5), source="RLSbench; DomainBed's choices")
    #: The variants whose adversary is SMA's.
    sma: ClassVar[tuple[str, ...]] = ("code",)

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.discriminator = discriminator(self.read_size(), int(self.width), self.dropout)

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = both_features(self, batch)
        logits, logits_target = self.network.head(z), self.network.head(z_target)
        of_loss, of_domain = self.importance(batch, logits, logits_target)
        fitted = of_loss * losses.cross_entropies(logits, batch.y)
        read = torch.cat([self.read(z, logits), self.read(z_target, logits_target)])
        sma = self.variant in self.sma
        coefficient = 1.0 if sma else losses.reversal_schedule(batch.progress, self.slope)
        judged = self.discriminator(losses.reverse_gradient(read, coefficient))
        source, target = judged[: len(z)], judged[len(z) :]
        domain = losses.dann(source, target, of_domain, variant="code" if sma else "fixed")
        return fitted.mean() + self.trade_off * domain

    def read_size(self) -> int:
        """Return the width of the discriminator's input."""
        return self.network.n_features

    def read(self, z: Tensor, logits: Tensor) -> Tensor:
        """Return the discriminator's input."""
        return z

    def importance(self, batch: Batch, logits: Tensor, logits_target: Tensor) -> Importance:
        """Return the factors of source rows: 1, but for IW-DANN."""
        ones = torch.ones_like(logits[:, 0])
        return ones, ones


LARGEST, PROJECTED = 4096, 1024


class CDAN(DANN):
    """Conditional domain-adversarial training: the discriminator sees the prediction too; also CDANN."""

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        if self.read_size() < network.n_features * data.classes:
            self.register_buffer("of_z", torch.randn(network.n_features, PROJECTED))
            self.register_buffer("of_p", torch.randn(data.classes, PROJECTED))

    def read_size(self) -> int:
        size = self.network.n_features * self.data.classes
        return PROJECTED if size > LARGEST else size

    def read(self, z: Tensor, logits: Tensor) -> Tensor:
        predicted = logits if self.variant in self.sma else logits.softmax(1).detach()
        matrices = dict(self.named_buffers(recurse=False))
        return losses.cdan_map(z, predicted, (matrices["of_z"], matrices["of_p"]) if matrices else None)
