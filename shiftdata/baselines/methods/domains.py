"""What methods of domain generalisation share: they compare the domains of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Method, Setup
from shiftdata.errors import InputError


def exactly(x: Tensor) -> torch.autocast:
    """Without mixed precision: differences of moments would drown in the rounding of 16 bits."""
    return torch.autocast(x.device.type, enabled=False)


class AcrossDomains(Method):
    """A method that needs several domains, and batches with equally many rows of each."""

    needs = frozenset({"domains"})
    sampler = "per-domain"

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        if known.domains < 2:
            raise InputError(
                f"{type(self).__name__} compares domains, and the rows to fit are of {known.domains}: "
                "take erm, or a task with several"
            )


class Annealed(AcrossDomains):
    """A method whose penalty gets its weight after a share `anneal` of the steps, with a fresh optimiser.

    DomainBed counts steps: the share is of the 5,000 that it takes.
    """

    def annealed(self, progress: float) -> bool:
        """Whether the penalty has its weight."""
        anneal: float = self.hyper["anneal"]
        return progress >= anneal

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        if batch.step and self.annealed(batch.progress):
            steps = round(batch.step / batch.progress)
            if not self.annealed((batch.step - 1) / steps):
                trainer.restart_optimizer()  # the loss is another one: old moments would mislead
        return super().step(batch, trainer)
