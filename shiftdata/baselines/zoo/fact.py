"""FACT: amplitudes of another domain, phases kept, and a teacher's answers (Xu et al., CVPR 2021).

    l(x) / 2 + l(x') / 2 + c (KL(t(x) || s(x')) + KL(t(x') || s(x)))    t, s: softmax of logits / temperature
    c = trade_off exp(-5 (1 - e)^2)              e rises to 1 in a share `ramp` of the steps

x' is `losses.amplitude_mix` with a row of `losses.partners`. Both read x and x' in one pass each. The teacher
answers in train mode, as the authors': only its parameters are averaged.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Batch, Hyper, Setup
from shiftdata.baselines.networks import Network
from shiftdata.baselines.zoo.pictures import OfPictures
from shiftdata.errors import InputError


class FACT(OfPictures):
    """ERM on pictures and on mixtures of amplitudes, each near to what a teacher says of the other.

    `code`: the logarithm of a softmax, -inf where logits are far apart; x' cut off to whole bytes.
    """

    variants = ("fixed", "code")
    strength = Hyper(1.0, low=0.0, high=1.0, source="Xu et al.: 1; OfficeHome: .2")
    trade_off = Hyper(2.0, low=0.1, high=200.0, log=True, source="Xu et al.: 2; OfficeHome: 200")
    ramp = Hyper(0.1, low=0.0, high=1.0, source="Xu et al.: 5 of 50 epochs")
    temperature = Hyper(10.0, low=1.0, high=20.0, log=True, source="Xu et al.")
    decay = Hyper(0.9995, low=0.9, high=0.9999, source="Xu et al.")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        if not (0 <= self.strength <= 1 and self.temperature > 0):
            raise InputError(
                f"fact with strength={self.strength:g}, temperature={self.temperature:g}: "
                "give 0 <= strength <= 1, temperature > 0"
            )
        self.teacher = copy.deepcopy(network).requires_grad_(False)

    def loss(self, batch: Batch) -> Tensor:
        if not (self.strength or self.trade_off):
            return super().loss(batch)
        both = torch.cat([batch.x, self._changed(batch)])
        own, changed = precise(self.network(both)).chunk(2)
        fitted = losses.cross_entropies(own, batch.y) / 2 + losses.cross_entropies(changed, batch.y) / 2
        of_own, of_changed = self._taught(both).chunk(2)
        settings = self.temperature, self.variant == "fixed"
        apart = losses.distillation(changed, of_own, *settings)
        apart = apart + losses.distillation(own, of_changed, *settings)
        return losses.mean(fitted + self.weight(batch.progress) * apart, batch.weight)

    def weight(self, progress: float) -> float:
        """Return the weight of the teacher's answers."""
        risen = min(1.0, progress / self.ramp) if self.ramp else 1.0
        return self.trade_off * math.exp(-5 * (1 - risen) ** 2)

    def after_step(self, batch: Batch) -> None:
        losses.ema_(self.teacher.parameters(), self.network.parameters(), self.decay, batch.step + 1)

    def _changed(self, batch: Batch) -> Tensor:
        """Return each row with amplitudes mixed with a partner's."""
        partner = losses.partners(batch.domain)
        lam = self.strength * torch.rand(len(batch.x)).to(batch.x.device)
        with losses.exactly(batch.x):
            x = self.pictures(batch.x)
            mixed = losses.amplitude_mix(x, x[partner], lam).clamp(0, 1)
            return self.read(mixed if self.variant == "fixed" else (mixed * 255).floor() / 255)

    @torch.no_grad()
    def _taught(self, x: Tensor) -> Tensor:
        """Return the teacher's logits, each part of it in the mode of the student's."""
        for mine, theirs in zip(self.teacher.modules(), self.network.modules(), strict=True):
            mine.training = theirs.training
        logits: Tensor = self.teacher(x)
        return precise(logits)
