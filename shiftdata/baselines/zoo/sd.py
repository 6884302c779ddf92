"""SD: spectral decoupling, small logits so that no feature starves another (Pezeshki et al., 2021)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method


class SD(Method):
    """ERM plus `losses.sd`."""

    sampler = "per-domain"
    trade_off = Hyper(0.1, low=1e-5, high=0.1, log=True, source="DomainBed: sd_reg")

    def loss(self, batch: Batch) -> Tensor:
        logits = self.network(batch.x)
        fitted = losses.cross_entropy(logits, batch.y, batch.weight)
        return fitted + self.trade_off * losses.sd(logits, batch.weight)
