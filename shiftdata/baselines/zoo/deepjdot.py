"""DeepJDOT: `losses.jdot` between the source and the target of a batch (Damodaran et al., ECCV 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method
from shiftdata.baselines.methods.dann import both_features
from shiftdata.baselines.networks import evaluating


class DeepJDOT(Method):
    """Joint distribution optimal transport: target rows get the labels of the source rows they couple to."""

    needs = frozenset({"target"})
    sampler = "rwy"  # as the authors' code
    variants = ("fixed", "paper", "code")
    distance = Hyper(0.01, low=1e-3, high=1.0, log=True, source="authors' code", variants={"code": 0.56})
    label = Hyper(1.0, low=0.1, high=10.0, log=True, source="authors' code", variants={"code": 0.19})
    source = Hyper(1.0, low=0.1, high=10.0, log=True, source="authors' paper", variants={"code": 4.88})
    joint = Hyper(1, choices=(0, 1), source="authors' code: 1")

    def loss(self, batch: Batch) -> Tensor:
        plan = self.plan(batch)
        z, z_target = both_features(self, batch, self.joint)
        moved = losses.jdot(
            self.cost(batch, z, z_target, "code" if self.variant == "code" else "paper"), plan
        )
        return self.source * losses.cross_entropy(self.network.head(z), batch.y, batch.weight) + moved

    @torch.no_grad()
    def plan(self, batch: Batch) -> Tensor:
        """Return the cheapest plan, with the network as it is."""
        with evaluating(self):
            z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
            return losses.exact_transport(self.cost(batch, z, z_target, self.variant))

    def cost(self, batch: Batch, z: Tensor, z_target: Tensor, variant: str) -> Tensor:
        """Return the cost of each source row with each target row."""
        logits = self.network.head(z_target)
        return losses.jdot_cost(batch.y, z, z_target, logits, self.distance, self.label, variant)
