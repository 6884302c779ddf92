"""Mixup across domains: rows and labels mixed with those of another domain (Xu et al., AAAI 2020)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper
from shiftdata.baselines.methods.domains import AcrossDomains


class Mixup(AcrossDomains):
    """ERM on rows of `losses.mixup`; one forward pass has the batch-norm statistics of all rows."""

    alpha = Hyper(0.2, low=0.1, high=10.0, log=True, source="DomainBed; v2's 10^U(-1, -1) is always .1")

    def loss(self, batch: Batch) -> Tensor:
        x, partner, lam = losses.mixup(batch.x, batch.domain, self.alpha)
        mixed = losses.mixup_losses(self.network(x), batch.y, partner, lam)
        return losses.mean(mixed, batch.weight)
