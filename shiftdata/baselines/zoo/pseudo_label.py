"""Pseudo-labels: l_s + trade_off min(1, progress / ramp) `losses.pseudo_label` (Lee 2013; RLSbench)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method
from shiftdata.baselines.methods.dann import both_features


class PseudoLabel(Method):
    """ERM, and the same on target rows that it is confident of, with its own prediction as the label."""

    needs = frozenset({"target"})
    tau = Hyper(0.9, low=0.7, high=0.95, source="RLSbench; range: unlabelled WILDS")
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="RLSbench; range: unlabelled WILDS")
    ramp = Hyper(0.4, low=0.0, high=1.0, source="RLSbench: 40 % of the steps")
    joint = Hyper(0, choices=(0, 1), source="0: the limit is ERM; RLSbench: 1")

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = both_features(self, batch, self.joint)
        risen = min(1.0, batch.progress / self.ramp) if self.ramp else 1.0
        target = losses.pseudo_label(self.network.head(z_target), self.tau)
        return (
            losses.cross_entropy(self.network.head(z), batch.y, batch.weight)
            + self.trade_off * risen * target
        )
