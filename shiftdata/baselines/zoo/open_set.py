"""Methods for targets with classes of their own.

OSBP: l_s + trade_off `losses.osbp` of a head with one output more (Saito et al., ECCV 2018).
OVANet: ERM + `losses.ovanet` + entropy `losses.entropy` (Saito and Saenko, ICCV 2021).
UAN: DANN of rows weighed by `losses.uan_weights`, from a second discriminator (You et al., CVPR 2019).
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup
from shiftdata.baselines.methods.adversarial import DANN, both_features, discriminator
from shiftdata.baselines.networks import Network


class OSBP(Method):
    """Open-set adaptation by back-propagation: one output more, for rows of no class that is known."""

    needs = frozenset({"target", "unknown"})
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="Saito et al.: 1")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.head = nn.Linear(sizes.features, sizes.classes + 1)

    def loss(self, batch: Batch) -> Tensor:
        fitted = losses.cross_entropy(self.predict(batch.x), batch.y)
        hidden = losses.reverse_gradient(self.network.features(batch.unlabelled))
        return fitted + self.trade_off * losses.osbp(self.head(hidden))

    def predict(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.network.features(x))
        return logits


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
        fitted = losses.cross_entropy(self.network.head(z), batch.y)
        fitted = fitted + losses.ovanet(self.open(z), batch.y)
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


class UAN(DANN):
    """Universal adaptation: a discriminator weighs rows by how likely both domains share their class."""

    needs = frozenset({"target", "unknown"})
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="You et al.: 1")
    threshold = Hyper(-0.5, low=-1.0, high=0.5, source="authors' code: w_0; SMA: .5", variants={"code": 0.5})
    temperature = Hyper(10.0, low=1.0, high=20.0, source="authors' code: of the source's classes")
    joint = Hyper(0, choices=(0, 1), source="authors' code: 0")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.observer = discriminator(sizes.features, int(self.width), self.dropout)

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = both_features(self, batch, self.joint)
        logits, logits_target = self.network.head(z), self.network.head(z_target)
        both, sizes = torch.cat([z, z_target]), [len(z), len(z_target)]
        seen = both if self.variant == "code" else both.detach()
        observed, observed_target = self.observer(seen).split(sizes)
        weights = losses.uan_weights(logits, observed, logits_target, observed_target, self.temperature)
        if self.variant == "code":  # the mean of (B,) times (B, 1)
            weights = weights[0].mean().expand_as(observed), weights[1].mean().expand_as(observed_target)
        coefficient = losses.reversal_schedule(batch.progress, self.slope)
        judged, judged_target = self.discriminator(losses.reverse_gradient(both, coefficient)).split(sizes)
        hidden = self.trade_off * losses.dann(judged, judged_target, *weights)
        observing = losses.dann(observed, observed_target)
        return losses.cross_entropy(logits, batch.y) + 2 * (hidden + observing)

    def predict(self, x: Tensor) -> Tensor:
        """Return the head's logits, and one of unknown."""
        z = self.network.features(x)
        logits: Tensor = self.network.head(z)
        scores = losses.uan_scores(logits, self.observer(z))
        scores = losses.open_set.unit_range(scores) if self.variant == "code" else scores
        return losses.with_unknown(logits, scores < self.threshold)
