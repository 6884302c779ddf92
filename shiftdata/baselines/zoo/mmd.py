"""MMD: features with one distribution in all domains, as Gaussian kernels see them (Li et al., CVPR 2018)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper
from shiftdata.baselines.methods.domains import Penalised


class MMD(Penalised):
    """ERM plus `losses.mmd`."""

    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="DomainBed")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.mmd(z, batch.domain)
