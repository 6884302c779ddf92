"""FixMatch: ERM-aug + trade_off `losses.fixmatch` (Sohn et al., NeurIPS 2020), as RLSbench has it."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method


class FixMatch(Method):
    """ERM on strong views, the target's with the labels that the network is sure of on weak ones."""

    needs = frozenset({"target", "pixels"})
    strong_views = 1
    target_strong_views = 1
    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper")
    tau = Hyper(0.9, low=0.7, high=0.95, source="RLSbench; range: unlabelled WILDS")
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="RLSbench; range: unlabelled WILDS")

    def loss(self, batch: Batch) -> Tensor:
        fitted = losses.cross_entropy(self.network(batch.strong[0]), batch.y)
        with torch.no_grad():
            weak = self.network(batch.unlabelled)
        strong = self.network(batch.target_strong[0])
        return fitted + self.trade_off * losses.fixmatch(weak, strong, self.tau, self.variant)
