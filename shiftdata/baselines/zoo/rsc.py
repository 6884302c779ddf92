"""RSC: without the features that an answer rests on most (Huang et al., ECCV 2020), as DomainBed has it.

The authors' own code works on the last feature maps: another method, which is not here.
"""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method


class RSC(Method):
    """ERM on features without those of `losses.rsc_mask`; `code` mutes what equals a quantile too."""

    sampler = "per-domain"
    variants = ("fixed", "code")
    features_muted = Hyper(1 / 3, low=0.0, high=0.5, source="DomainBed: rsc_f_drop_factor")
    rows_muted = Hyper(1 / 3, low=0.0, high=0.5, source="DomainBed: rsc_b_drop_factor")

    def loss(self, batch: Batch) -> Tensor:
        z, head = self.network.features(batch.x), self.network.head
        shares = self.features_muted, self.rows_muted
        mask = losses.rsc_mask(head, z, batch.y, *shares, strict=self.variant == "fixed")
        return losses.cross_entropy(head(z * ~mask), batch.y, batch.weight)
