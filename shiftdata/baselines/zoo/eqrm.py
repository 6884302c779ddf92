"""EQRM: a quantile of the domains' risks instead of their mean (Eastwood et al., NeurIPS 2022)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper
from shiftdata.baselines.methods.domains import AcrossDomains


class EQRM(AcrossDomains):
    """ERM for a share `anneal` of the steps, then `losses.eqrm`; `code` has the gradient of a bisection.

    DomainBed goes on with a learning rate of its own, 1e-6; here the schedule of the training holds.
    """

    variants = ("fixed", "code")
    quantile = Hyper(0.75, low=0.5, high=0.99, source="DomainBed: eqrm_quantile")
    anneal = Hyper(0.5, low=0.06, high=0.64, log=True, source="DomainBed: 2,500 of 5,000; 10^2.5 to 10^3.5")

    def loss(self, batch: Batch) -> Tensor:
        each = losses.cross_entropies(self.network(batch.x), batch.y)
        if not self.annealed(batch.progress):
            return losses.mean(each, batch.weight)
        implicit = self.variant == "fixed"
        return losses.eqrm(each, batch.domain, self.quantile, batch.weight, implicit=implicit)
