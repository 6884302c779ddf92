"""ERM-adv: ERM on examples moved to where the loss is larger (Madry et al., ICLR 2018), as RLSbench has it.

    x' = x, then `moves` times: x' <- P(x' + step g / |g|)      g the gradient of the row's loss by x'
    P: no farther than `radius` from x (L2), no darker than black, no lighter than white

The values of a picture go from black, 0, to white, 1; numbers are deviations, and nothing bounds them. The
moves are made in eval mode. A share `plain` of the steps, the last, is ERM, as in the released code; so is a
radius of 0.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Hyper, Stage
from shiftdata.baselines.networks import evaluating
from shiftdata.baselines.zoo.pictures import OfPictures
from shiftdata.errors import InputError

TINY = 1e-10  # no gradient is divided by less


def stepped(x: Tensor, origin: Tensor, gradient: Tensor, step: float, radius: float) -> Tensor:
    """Each row a step along its gradient, and back to within a radius of where it began."""
    length = gradient.flatten(1).norm(dim=1).clamp(min=TINY)
    way = x + step * gradient / length.view(-1, *[1] * (x.ndim - 1)) - origin
    near: Tensor = origin + way.flatten(1).renorm(2, 0, radius).view_as(way)
    return near


class ERMAdv(OfPictures):
    """ERM on adversarial examples, found by a few steps up each row's loss."""

    needs = frozenset()
    radius = Hyper(0.5, low=0.01, high=2.0, log=True, source="RLSbench: eps")
    length = Hyper(1 / 3, low=0.01, high=1.0, log=True, source="RLSbench: step_size")
    moves = Hyper(3, choices=(1, 3, 10), source="RLSbench: iterations")
    plain = Hyper(0.1, low=0.0, high=1.0, source="RLSbench: the last tenth of the epochs")

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if trainer.data.source.is_pictures:
            super().begin(stage, trainer)

    def loss(self, batch: Batch) -> Tensor:
        if self.radius and batch.progress < 1 - self.plain:
            batch = replace(batch, x=self.attacked(batch.x, batch.y))
        return super().loss(batch)

    def attacked(self, x: Tensor, y: Tensor) -> Tensor:
        """Examples near by, at which the network as it is now has a larger loss."""
        if not x.is_floating_point():
            raise InputError("erm-adv moves pixels or numbers, and this backbone reads neither: take another")
        of_pictures = x.ndim == 4
        made = origin = self.pictures(x) if of_pictures else x
        with evaluating(self):
            for _ in range(int(self.moves)):
                made = made.detach().requires_grad_()
                scores = self.network(self.read(made) if of_pictures else made)
                (gradient,) = torch.autograd.grad(cross_entropy(scores, y, reduction="sum"), made)
                made = stepped(made, origin, gradient, self.length, self.radius)
                made = made.clamp(0, 1) if of_pictures else made
        return (self.read(made) if of_pictures else made).detach()
