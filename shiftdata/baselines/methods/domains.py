"""What methods of domain generalisation share: they compare the domains of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftdata.baselines.losses import cross_entropy
from shiftdata.baselines.method import Batch, Method, TrainerAPI


class AcrossDomains(Method):
    """A method that needs several domains, and batches with equally many rows of each."""

    needs = frozenset({"domains"})
    sampler = "per-domain"

    def annealed(self, progress: float) -> bool:
        """Return whether a share `anneal` of the steps is done, where a method has one.

        DomainBed counts steps: the share is of the 5,000 that it takes.
        """
        return progress >= self.hyper.get("anneal", 0)

    def step(self, batch: Batch, trainer: TrainerAPI) -> Tensor:
        if batch.step and self.annealed(batch.progress):
            steps = round(batch.step / batch.progress)
            if not self.annealed((batch.step - 1) / steps):
                trainer.restart_optimizer()  # the loss is another one: old moments would mislead
        return super().step(batch, trainer)


class Penalised(AcrossDomains):
    """ERM plus a penalty, with the weight `trade_off`, or `early` before the share `anneal` of the steps."""

    early: float = 0.0

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        logits = self.network.head(z)
        weight = self.hyper["trade_off"] if self.annealed(batch.progress) else self.early
        with torch.set_grad_enabled(torch.is_grad_enabled() and weight != 0):
            penalty = self.penalty(z, logits, batch)
        return cross_entropy(logits, batch.y, batch.weight) + weight * penalty

    def penalty(self, z: Tensor, logits: Tensor, batch: Batch) -> Tensor:
        """Return what is added to the loss, from features and logits."""
        raise NotImplementedError
