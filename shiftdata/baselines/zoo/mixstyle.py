"""MixStyle: feature maps with a style between those of two rows (Zhou et al., ICLR 2021).

    (x - mu_i) / sigma_i * (lam sigma_i + (1 - lam) sigma_j) + lam mu_i + (1 - lam) mu_j

mu and sigma are the mean and the deviation of each channel of a row's map (n - 1, and 1e-6 is added to the
variance); no gradient goes through them; lam ~ Beta(alpha, alpha). It happens behind the stages `layers` of
the network, 12 for the first two, in training alone: for each stage and each batch with probability p, then
to every row, each with a lam of its own. Labels stay. The last stage is refused: its statistics are what the
head reads.

j is a random row of another domain where the batch has one: domains stand in a circle in a random order, each
row's partner is a random one of the next, each is partner once where the numbers are equal. So a batch may
have any number of rows and domains; the authors' swaps two halves, and an odd one breaks it (Dassl #33).
With one domain, and with across=0, j is any row. A batch of one row and a map of one place stay as they are;
p = 0 is ERM, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from shiftdata.baselines.method import Batch, Hyper, Setup
from shiftdata.baselines.methods.domains import exactly
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.methods.mixup import mixed, partners
from shiftdata.errors import InputError

EPSILON = 1e-6


def style(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the deviation of each channel of each row's map, without a gradient."""
    variance, mean = torch.var_mean(x.detach(), dim=(2, 3), keepdim=True)
    return mean, (variance + EPSILON).sqrt()


def restyled(x: Tensor, partner: Tensor, lam: Tensor) -> Tensor:
    """Maps with `lam` of their own style and the rest of their partner's."""
    mean, deviation = style(x)
    plain = (x - mean) / deviation
    return plain * mixed(deviation, deviation[partner], lam) + mixed(mean, mean[partner], lam)


class MixStyle(ERM):
    """ERM on feature maps whose style is mixed with that of a row of another domain."""

    needs = frozenset({"maps"})
    sampler = "per-domain"
    p = Hyper(0.5, low=0.2, high=0.8, source="Zhou et al.; range: NICO++'s repository")
    alpha = Hyper(0.1, choices=(0.1, 0.2, 0.3), source="Zhou et al.; choices: NICO++'s repository")
    layers = Hyper(12, choices=(12, 123, 23), source="Zhou et al.; choices: NICO++'s repository")
    across = Hyper(1, choices=(0, 1), source="Zhou et al.: 1 where domains are known")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        last = len(network.maps)
        if not all(0 < layer < last for layer in self._layers()):
            raise InputError(
                f"mixstyle with layers={self.layers:g}: give stages from 1 to {last - 1}, a digit each; "
                f"the network has {last} with feature maps, and the last is never mixed"
            )
        if not (0 <= self.p <= 1 and self.alpha > 0):
            raise InputError(f"mixstyle with p={self.p:g}, alpha={self.alpha:g}: give 0 <= p <= 1, alpha > 0")

    def loss(self, batch: Batch) -> Tensor:
        with self._mixing(batch):
            return super().loss(batch)

    def _layers(self) -> list[int]:
        return [int(digit) for digit in f"{self.layers:.0f}"]

    @contextmanager
    def _mixing(self, batch: Batch) -> Iterator[None]:
        domains = batch.domains() if self.across else [torch.arange(len(batch.y), device=batch.y.device)]
        layers = self._layers() if self.p else []  # without a draw: dropout draws from the same generator
        hooks = [
            self.network.maps[layer - 1].register_forward_hook(partial(self._mixed, domains))
            for layer in layers
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _mixed(self, domains: list[Tensor], part: nn.Module, read: Any, x: Tensor) -> Tensor:
        if torch.rand(()) >= self.p or len(x) < 2 or x[0, 0].numel() < 2:
            return x
        partner = partners(domains, torch.randperm(len(domains)).tolist())
        lam = torch.distributions.Beta(self.alpha, self.alpha).sample((len(x),)).to(x.device)
        with exactly(x):
            return restyled(x.float(), partner, lam).to(x.dtype)
