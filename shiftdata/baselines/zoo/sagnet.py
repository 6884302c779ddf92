"""SagNet: an answer that does not rest on style, features that say nothing of it (Nam et al., CVPR 2021).

    content    l(c(z with the style of another row mixed in))      moves the encoder and the head c
    style      l(s(z of another row with one's own style))         moves the style head s alone
    adversary  w_adv mean over classes of -log p_s, of the same    moves the encoder alone

DomainBed's form, on pooled features. With w_adv = 0 it is ERM on mixed styles.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, TrainerAPI
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError


class SagNet(Method):
    """Style-agnostic networks: a content head on mixed styles, and features that a style head cannot read."""

    several_moves = True
    sampler = "per-domain"
    w_adv = Hyper(0.1, low=0.01, high=10.0, log=True, source="DomainBed: sag_w_adv")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        if sizes.features < 2:
            raise InputError(
                "sagnet reads style from the variance of a row's features: give 2 or more, not 1"
            )
        self.style = nn.Linear(sizes.features, sizes.classes)

    def step(self, batch: Batch, trainer: TrainerAPI) -> Tensor:
        total = trainer.descend(self.loss(batch))
        if self.w_adv:
            total = total + trainer.descend(self.style_loss(batch))
            total = total + trainer.descend(self.adversarial_loss(batch))
        return total

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the content, with mixed styles."""
        z = self.network.features(batch.x)
        alpha, order = torch.rand(len(z)).to(z.device), torch.randperm(len(z)).to(z.device)
        return losses.cross_entropy(
            self.network.head(losses.style_mixed(z, alpha, order)), batch.y, batch.weight
        )

    def style_loss(self, batch: Batch) -> Tensor:
        """Return the loss of the style head, on features that it does not move."""
        with torch.no_grad():
            z = self._swapped(batch.x)
        return losses.cross_entropy(self.style(z), batch.y, batch.weight)

    def adversarial_loss(self, batch: Batch) -> Tensor:
        """Return the loss of the encoder, by the style head as it is."""
        fixed = {name: parameter.detach() for name, parameter in self.style.named_parameters()}
        logits = functional_call(self.style, fixed, (self._swapped(batch.x),))
        return self.w_adv * losses.mean(losses.uniform_cross_entropies(logits), batch.weight)

    def _swapped(self, x: Tensor) -> Tensor:
        z = self.network.features(x)
        return losses.content_swapped(z, torch.randperm(len(z)).to(z.device))
