"""CORAL: features with one mean and covariance in all domains (Sun and Saenko, ECCV workshops 2016)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper
from shiftdata.baselines.methods.domains import Penalised


class CORAL(Penalised):
    """ERM plus `losses.coral`; `paper` leaves the means out."""

    variants = ("fixed", "paper")
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="DomainBed")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.coral(z, batch.domain, means=self.variant == "fixed")
