"""FACT: amplitudes of another domain, phases kept, and a teacher's answers (Xu et al., CVPR 2021).

    x' = F^-1(((1 - lam) |F x_i| + lam |F x_j|) exp(i arg F x_i))       lam ~ U(0, strength) a row
    l(x) / 2 + l(x') / 2 + c (KL(t(x) || s(x')) + KL(t(x') || s(x)))    t, s: softmax of scores / temperature
    c = trade_off exp(-5 (1 - e)^2)              e rises to 1 in a share `ramp` of the steps

F is the Fourier transform of each channel from black, 0, to white, 1, where the mean's phase is 0; x' is
cut to that range. j is a random row of another domain where the batch has one (domains in a circle, as in
Mixup), else of the same. The authors draw j from all rows, make both mixtures of a pair and so read 4
pictures a row; here each row of a batch is read twice, itself and mixed, and is partner once where domains
have equal numbers.

The teacher's parameters are a moving average, m <- k m + (1 - k) theta after each step, k = min(1 - 1 / (t
+ 1), decay), t steps done; the student is tested. Both read x and x' in one pass each, so that these share
statistics of batch norm. The teacher answers in train mode, as the authors': its batch norm takes the
statistics of the batch and its running ones have no say, hence only parameters are averaged; where the
student's norms are frozen, so are the teacher's, with the same statistics. trade_off = 0 and strength = 0
is ERM, bit for bit.

`code`: the logarithm of a softmax, which is -inf where scores are far apart, and x' cut off to whole bytes,
hence half a byte darker on average.
"""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div

from shiftdata.baselines.method import Batch, Hyper, Setup, mean
from shiftdata.baselines.methods.domains import exactly
from shiftdata.baselines.methods.mixup import partners
from shiftdata.baselines.zoo.pictures import OfPictures
from shiftdata.errors import InputError


def amplitudes_mixed(x: Tensor, other: Tensor, lam: Tensor) -> Tensor:
    """Pictures whose amplitudes have `lam` of those of others, one a row; their phases stay."""
    spectrum, others = torch.fft.rfft2(x), torch.fft.rfft2(other)
    amplitude = torch.lerp(spectrum.abs(), others.abs(), lam.view(-1, 1, 1, 1))
    mixed: Tensor = torch.fft.irfft2(torch.polar(amplitude, spectrum.angle()), s=x.shape[2:])
    return mixed


def divergences(taught: Tensor, teacher: Tensor, temperature: float, stable: bool = True) -> Tensor:
    """KL of the student's answer from the teacher's, one a row, both at a temperature."""
    taught = taught / temperature
    logs = taught.log_softmax(1) if stable else taught.softmax(1).log()
    return kl_div(logs, (teacher / temperature).softmax(1), reduction="none").sum(1)


class FACT(OfPictures):
    """ERM on pictures and on mixtures of amplitudes, each near to what a teacher says of the other."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    strength = Hyper(1.0, low=0.0, high=1.0, source="Xu et al.: 1; OfficeHome: .2")
    trade_off = Hyper(2.0, low=0.1, high=200.0, log=True, source="Xu et al.: 2; OfficeHome: 200")
    ramp = Hyper(0.1, low=0.0, high=1.0, source="Xu et al.: 5 of 50 epochs")
    temperature = Hyper(10.0, low=1.0, high=20.0, log=True, source="Xu et al.")
    decay = Hyper(0.9995, low=0.9, high=0.9999, source="Xu et al.")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
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
        own, changed = self.network(both).float().chunk(2)
        losses = cross_entropy(own, batch.y, reduction="none") / 2
        losses = losses + cross_entropy(changed, batch.y, reduction="none") / 2
        of_own, of_changed = self._taught(both).chunk(2)
        stable = self.variant == "fixed"
        apart = divergences(changed, of_own, self.temperature, stable)
        apart = apart + divergences(own, of_changed, self.temperature, stable)
        return mean(losses + self.weight(batch.progress) * apart, batch.weight)

    def weight(self, progress: float) -> float:
        """The weight of the teacher's answers."""
        risen = min(1.0, progress / self.ramp) if self.ramp else 1.0
        return self.trade_off * math.exp(-5 * (1 - risen) ** 2)

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        kept = min(1 - 1 / (batch.step + 2), self.decay)  # a step more is done than the batch says
        for mine, theirs in zip(self.teacher.parameters(), self.network.parameters(), strict=True):
            mine.lerp_(theirs, 1 - kept)

    def _changed(self, batch: Batch) -> Tensor:
        """Each row with amplitudes mixed with a partner's."""
        domains = batch.domains()
        partner = partners(domains, torch.randperm(len(domains)).tolist())
        lam = self.strength * torch.rand(len(batch.x)).to(batch.x.device)
        with exactly(batch.x):
            x = self.pictures(batch.x)
            mixed = amplitudes_mixed(x, x[partner], lam).clamp(0, 1)
            return self.read(mixed if self.variant == "fixed" else (mixed * 255).floor() / 255)

    @torch.no_grad()
    def _taught(self, x: Tensor) -> Tensor:
        """The teacher's scores, each part of it in the mode of the student's."""
        for mine, theirs in zip(self.teacher.modules(), self.network.modules(), strict=True):
            mine.training = theirs.training
        scores: Tensor = self.teacher(x)
        return scores.float()
