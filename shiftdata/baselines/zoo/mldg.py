"""MLDG: a step on one domain must help on another (Li et al., AAAI 2018), to first order as in DomainBed."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.distributed import average
from shiftdata.baselines.method import Batch, Hyper, TrainerAPI
from shiftdata.baselines.methods.domains import AcrossDomains


class MLDG(AcrossDomains):
    """`losses.mldg` at the training's rate; ERM with beta = 0, or in a batch of too few domains.

    `code` (DomainBed): the inner step is Adam's, and a batch without a pair of domains trains nothing.
    """

    several_moves = True
    variants = ("fixed", "code")
    beta = Hyper(1.0, low=0.1, high=10.0, log=True, source="DomainBed: mldg_beta")
    meta_test = Hyper(
        0, choices=(0, 1, 2), source="0: a circle; DomainBed: n_meta_test 2; 1 or 2", variants={"code": 2}
    )

    def loss(self, batch: Batch) -> Tensor:
        """Return ERM's loss, of a step in which there is nothing to meta-learn."""
        return losses.cross_entropy(self.network(batch.x), batch.y, batch.weight)

    def step(self, batch: Batch, trainer: TrainerAPI) -> Tensor:
        meta_test, released = int(self.meta_test), self.variant == "code"
        if not released and (not self.beta or len(torch.unique(batch.domain)) <= max(1, meta_test)):
            return super().step(batch, trainer)
        rate_of = {id(p): group["lr"] for group in trainer.optimizer.param_groups for p in group["params"]}
        rates = {name: rate_of.get(id(p), 0.0) for name, p in self.network.named_parameters()}
        rows = batch.x, batch.y, batch.domain
        options = {"meta_test": meta_test, "released": released, "share": average}
        return trainer.descend(
            losses.mldg(self.network, *rows, rates, self.beta, batch.weight, **options)  # type: ignore[arg-type]
        )
