"""V-REx: domains whose mean losses are equal (Krueger et al., ICML 2021)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper
from shiftdata.baselines.methods.domains import Penalised


class VREx(Penalised):
    """ERM plus `losses.vrex`, with a weight of 1 before `anneal`."""

    early = 1.0
    trade_off = Hyper(10.0, low=0.1, high=1e5, log=True, source="DomainBed: vrex_lambda")
    anneal = Hyper(0.1, low=2e-4, high=1.0, log=True, source="DomainBed: 500 of 5,000 steps; 1 to 10,000")

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        return losses.vrex(losses.cross_entropies(logits, batch.y), batch.domain, batch.weight)
