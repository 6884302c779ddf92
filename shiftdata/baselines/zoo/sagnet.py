"""SagNet: an answer that does not rest on style, features that say nothing of it (Nam et al., CVPR 2021).

    content    l(c(z with the style of another row mixed in))      moves the encoder and the head c
    style      l(s(z of another row with one's own style))         moves the style head s alone
    adversary  w_adv mean over classes of -log p_s, of the same    moves the encoder alone

This is DomainBed's form, on pooled features: the style of a row are the mean and the variance (divided by
d - 1) of its d features, the content is what is left. Styles are mixed alpha : 1 - alpha, alpha ~ U(0, 1) a
row, with the row that a random order puts beside it; content that is swapped carries no gradient. The
adversary's least value is log K, where s cannot say more than chance. Predictions mix nothing. With w_adv = 0
there is no adversary and no style head is trained: it is ERM on mixed styles.

Each of the three moves has a forward pass of its own, in train mode: batch norm's running statistics move
three times a step, as DomainBed's.

The authors' own form mixes the statistics of feature maps, with a copy of the last stage as the style
network, and moves only batch norm of the early stages by the adversary: another method, which is not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, log_softmax

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, mean
from shiftdata.baselines.methods.domains import exactly
from shiftdata.errors import InputError

if TYPE_CHECKING:
    from shiftdata.baselines.engine import Trainer

EPS = 1e-5


def style_and_content(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean and the variance of each row's features, and the features without either."""
    mu, var = z.mean(1, keepdim=True), z.var(1, keepdim=True)
    return mu, var, (z - mu) / (var + EPS).sqrt()


def styled(content: Tensor, mu: Tensor, var: Tensor) -> Tensor:
    """Content in a style."""
    return content * (var + EPS).sqrt() + mu


def style_mixed(z: Tensor, alpha: Tensor, order: Tensor) -> Tensor:
    """Rows in a style that is `alpha` their own, one number a row, and else that of the row in `order`."""
    mu, var, content = style_and_content(z)
    alpha = alpha[:, None]
    return styled(content, *(alpha * one + (1 - alpha) * one[order] for one in (mu, var)))


def content_swapped(z: Tensor, order: Tensor) -> Tensor:
    """The content of the row in `order`, without a gradient, in the style of each row."""
    mu, var, content = style_and_content(z)
    return styled(content[order].detach(), mu, var)


def adversarial_losses(scores: Tensor) -> Tensor:
    """Each row's mean over the classes of -log p: the cross-entropy with the uniform distribution."""
    return -log_softmax(scores, dim=1).mean(dim=1)


class SagNet(Method):
    """Style-agnostic networks: a content head on mixed styles, and features that a style head cannot read."""

    several_moves = True
    sampler = "per-domain"
    w_adv = Hyper(0.1, low=0.01, high=10.0, log=True, source="DomainBed: sag_w_adv")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        if known.features < 2:
            raise InputError(
                "sagnet reads style from the variance of a row's features: give 2 or more, not 1"
            )
        self.style = nn.Linear(known.features, known.classes)

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        total = trainer.descend(self.loss(batch))
        if self.w_adv:
            total += trainer.descend(self.style_loss(batch)) + trainer.descend(self.adversarial_loss(batch))
        return total

    def loss(self, batch: Batch) -> Tensor:
        """Of the content, with mixed styles."""
        z = self.network.features(batch.x)
        alpha, order = (one.to(z.device) for one in (torch.rand(len(z)), torch.randperm(len(z))))
        with exactly(z):
            mixed = style_mixed(z.float(), alpha, order)
        return mean(cross_entropy(self.network.head(mixed), batch.y, reduction="none"), batch.weight)

    def swapped(self, x: Tensor) -> Tensor:
        """Features of some rows, each with the content of another."""
        z = self.network.features(x)
        with exactly(z):
            return content_swapped(z.float(), torch.randperm(len(z)).to(z.device))

    def style_loss(self, batch: Batch) -> Tensor:
        """Of the style head, on features that it does not move."""
        with torch.no_grad():
            z = self.swapped(batch.x)
        return mean(cross_entropy(self.style(z), batch.y, reduction="none"), batch.weight)

    def adversarial_loss(self, batch: Batch) -> Tensor:
        """Of the encoder, by the style head as it is."""
        fixed = {name: one.detach() for name, one in self.style.named_parameters()}
        scores = functional_call(self.style, fixed, (self.swapped(batch.x),))
        return self.w_adv * mean(adversarial_losses(scores), batch.weight)
