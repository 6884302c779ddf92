"""IRM: a representation on which one head is the best in every domain (Arjovsky et al., 2019)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper
from shiftdata.baselines.methods.domains import Penalised


class IRM(Penalised):
    """ERM plus `losses.irm`, with a weight of 1 before `anneal`; `paper` squares the gradient of all rows."""

    variants = ("fixed", "paper")
    early = 1.0
    trade_off = Hyper(100.0, low=0.1, high=1e5, log=True, source="DomainBed; v2 searches 1e-5 to .1")
    anneal = Hyper(0.1, low=2e-4, high=1.0, log=True, source="DomainBed: 500 of 5,000 steps; 1 to 10,000")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.irm(logits, batch.y, batch.domain, halves=self.variant == "fixed")
