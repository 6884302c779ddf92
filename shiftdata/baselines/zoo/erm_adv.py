"""ERM-adv: ERM on examples moved by `losses.adversarial_step` (Madry et al., ICLR 2018), as in RLSbench."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Stage, TrainerAPI
from shiftdata.baselines.networks import evaluating
from shiftdata.baselines.zoo.pictures import OfPictures
from shiftdata.errors import InputError


class ERMAdv(OfPictures):
    """ERM on adversarial examples, reached by a few steps up each row's loss."""

    needs = frozenset()
    radius = Hyper(0.5, low=0.01, high=2.0, log=True, source="RLSbench: eps")
    length = Hyper(1 / 3, low=0.01, high=1.0, log=True, source="RLSbench: step_size")
    moves = Hyper(3, choices=(1, 3, 10), source="RLSbench: iterations")
    plain = Hyper(0.1, low=0.0, high=1.0, source="RLSbench: the last tenth of the epochs")

    def begin(self, stage: Stage, trainer: TrainerAPI) -> None:
        if trainer.data.source.is_pictures:
            super().begin(stage, trainer)

    def loss(self, batch: Batch) -> Tensor:
        if self.radius and batch.progress < 1 - self.plain:
            batch = replace(batch, x=self.attacked(batch.x, batch.y))
        return super().loss(batch)

    def attacked(self, x: Tensor, y: Tensor) -> Tensor:
        """Return examples near by, at which the network as it is has a larger loss."""
        if not x.is_floating_point():
            raise InputError("erm-adv moves pixels or numbers, and this backbone reads neither: take another")
        of_pictures = x.ndim == 4
        moved = origin = self.pictures(x) if of_pictures else x
        with evaluating(self):
            for _ in range(int(self.moves)):
                moved = moved.detach().requires_grad_()
                logits = self.network(self.read(moved) if of_pictures else moved)
                (gradient,) = torch.autograd.grad(cross_entropy(logits, y, reduction="sum"), moved)
                moved = losses.adversarial_step(moved, origin, gradient, self.length, self.radius)
                moved = moved.clamp(0, 1) if of_pictures else moved
        return (self.read(moved) if of_pictures else moved).detach()
