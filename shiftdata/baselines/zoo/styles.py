"""Methods that mix the style of rows."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Batch, Data, Hyper, Method
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network, hooked
from shiftdata.errors import InputError


class MixStyle(ERM):
    """ERM on feature maps whose style is mixed with that of a row of another domain.

    MixStyle: feature maps with a style between those of two rows (Zhou et al., ICLR 2021).

    `losses.mixstyle` follows the stages `layers`, 12 for the first two, in training: for each batch with
    probability p. The last stage is refused: its statistics are what the head reads.
    """

    needs = frozenset({"maps"})
    sampler = "per-domain"
    p = Hyper(0.5, low=0.2, high=0.8, source="Zhou et al.; range: NICO++'s repository")
    alpha = Hyper(0.1, choices=(0.1, 0.2, 0.3), source="Zhou et al.; choices: NICO++'s repository")
    layers = Hyper(12, choices=(12, 123, 23), source="Zhou et al.; choices: NICO++'s repository")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        last = len(network.maps)
        if not all(0 < layer < last for layer in self._layers()):
            raise InputError(
                f"mixstyle with layers={self.layers:g}: give stages from 1 to {last - 1}, a digit each; "
                f"the network has {last} with feature maps, and the last is never mixed"
            )

    def loss(self, batch: Batch) -> Tensor:
        layers = self._layers() if self.p else []  # without a draw: dropout draws from the same generator
        parts = [self.network.maps[layer - 1] for layer in layers]
        with hooked(parts, partial(self._mixed, batch.domain)):
            return super().loss(batch)

    def _layers(self) -> list[int]:
        return [int(digit) for digit in f"{self.layers:.0f}"]

    def _mixed(self, domain: Tensor, stage: nn.Module, inputs: Any, x: Tensor) -> Tensor:
        if torch.rand(()) >= self.p or len(x) < 2 or x[0, 0].numel() < 2:
            return x
        partner = losses.partners(domain)
        lam = torch.distributions.Beta(self.alpha, self.alpha).sample((len(x),)).to(x.device)
        with losses.exactly(x):
            return losses.mixstyle(precise(x), partner, lam).to(x.dtype)


class SagNet(Method):
    """Style-agnostic networks: a content head on mixed styles, and features that a style head cannot read.

    SagNet: an answer that does not rest on style, features that say nothing of it (Nam et al., CVPR 2021).

        content    l(c(z with the style of another row mixed in))      moves the encoder and the head c
        style      l(s(z of another row with one's own style))         moves the style head s alone
        adversary  w_adv mean over classes of -log p_s, of the same    moves the encoder alone

    DomainBed's form, on pooled features. With w_adv = 0 it is ERM on mixed styles.
    """

    sampler = "per-domain"
    w_adv = Hyper(0.1, low=0.01, high=10.0, log=True, source="DomainBed: sag_w_adv")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.style = nn.Linear(network.n_features, data.classes)

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        total = trainer.descend(self.loss(batch))
        if self.w_adv:
            with torch.no_grad():  # moves the style head alone
                z = self._swapped(batch.x)
            total = total + trainer.descend(losses.cross_entropy(self.style(z), batch.y))
            # Moves the encoder alone, by the style head as it is.
            fixed = {name: parameter.detach() for name, parameter in self.style.named_parameters()}
            logits = functional_call(self.style, fixed, (self._swapped(batch.x),))
            total = total + trainer.descend(self.w_adv * losses.uniform_cross_entropies(logits).mean())
        return total

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the content, with mixed styles."""
        z = self.network.features(batch.x)
        alpha, order = torch.rand(len(z)).to(z.device), torch.randperm(len(z)).to(z.device)
        return losses.cross_entropy(self.network.head(losses.style_mixed(z, alpha, order)), batch.y)

    def _swapped(self, x: Tensor) -> Tensor:
        z = self.network.features(x)
        return losses.content_swapped(z, torch.randperm(len(z)).to(z.device))
