"""UAN: adversarial adaptation of the rows that both domains seem to share (You et al., CVPR 2019).

    l_s + trade_off (mean w_s BCE_s + mean w_t BCE_t) + BCE'_s + BCE'_t
    BCE of D(GRL_c(z)), BCE' of D'(sg(z)); source 1, target 0
    source   w_s = H(softmax(f / 10)) / log K - d'          d' = what D' gives a row to be of the source
    target   w_t = d' - H(softmax(f)) / log K

In each batch w_s and w_t, which have no gradient, are brought to 0 to 1 and divided by their mean. A row is
unknown if its w_t, as it is, lies below `threshold`: it looks like the target, and no class is likely.

`code` (SMA): D' has a gradient for the features, which so learn to part the domains; losses (B,) times
weights (B, 1), whose mean is mean(loss) mean(w), so that weights do nothing; and a row is unknown if its
w_t, brought to 0 to 1 among the rows that are predicted with it, is below 1/2: the answer depends on them.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, check_1d, mean
from shiftdata.baselines.methods.dann import (
    both_features,
    discriminator,
    domain_losses,
    reversed_gradient,
    warm_up,
)
from shiftdata.baselines.zoo.ovanet import with_unknown


def uncertainty(scores: Tensor, temperature: float = 1.0) -> Tensor:
    """The entropy of each row's prediction, as a share of the largest that there can be."""
    logs = torch.log_softmax(scores.float() / temperature, 1)
    return -(logs.exp() * logs).sum(1) / math.log(max(2, scores.shape[1]))


def scaled(weight: Tensor) -> Tensor:
    """From 0 to 1 within the batch; equal weights become 1."""
    spread = weight.max() - weight.min()
    return (weight - weight.min()) / spread if spread > 0 else torch.ones_like(weight)


def normalised(weight: Tensor) -> Tensor:
    """From 0 to 1 within the batch, then 1 on average; without a gradient."""
    check_1d(weight=weight)
    weight = scaled(weight.detach())
    return weight / weight.mean()


class UAN(Method):
    """Universal adaptation: a discriminator weighs rows by how likely both domains share their class."""

    needs = frozenset({"target", "unknown"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="You et al.: 1")
    threshold = Hyper(-0.5, low=-1.0, high=0.5, source="authors' code: w_0; SMA: .5", variants={"code": 0.5})
    temperature = Hyper(10.0, low=1.0, high=20.0, source="authors' code: of the source's classes")
    slope = Hyper(10.0, source="Ganin et al.: total steps as T")
    width = Hyper(256, low=64, high=1024, log=True, source="as dann; authors: 1024")
    dropout = Hyper(0.5, choices=(0.0, 0.1, 0.5), source="authors' code")
    joint = Hyper(0, choices=(0, 1), source="authors' code: 0")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        size, width = known.features, int(self.width)
        self.adversary = discriminator(size, width, self.dropout)
        self.observer = discriminator(size, width, self.dropout)

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = both_features(self, batch, bool(self.joint))
        scores, scores_target = self.network.head(z), self.network.head(z_target)
        fitted = mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)
        seen = torch.cat([z, z_target])
        observed = self.observer(seen if self.variant == "code" else seen.detach())
        of_source, of_target = observed[: len(z)], observed[len(z) :]
        observing = (
            mean(domain_losses(of_source, True), batch.weight) + domain_losses(of_target, False).mean()
        )
        weight = normalised(uncertainty(scores, self.temperature) - of_source.sigmoid())
        weight_target = normalised(of_target.sigmoid() - uncertainty(scores_target))
        judged = self.adversary(reversed_gradient(seen, warm_up(batch.progress, self.slope)))
        losses, losses_target = domain_losses(judged[: len(z)], True), domain_losses(judged[len(z) :], False)
        if self.variant == "code":
            weight, weight_target = weight.mean(), weight_target.mean()  # what (B,) times (B, 1) comes to
        adversarial = mean(weight * losses, batch.weight) + (weight_target * losses_target).mean()
        return fitted + self.trade_off * adversarial + observing

    def predict(self, x: Tensor) -> Tensor:
        """The head's scores, and one of unknown."""
        z = self.network.features(x)
        scores: Tensor = self.network.head(z)
        shared = self.observer(z).sigmoid() - uncertainty(scores)
        return with_unknown(scores, (scaled(shared) if self.variant == "code" else shared) < self.threshold)
