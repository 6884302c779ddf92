"""MCD: features on which two heads agree about the target (Saito et al., CVPR 2018).

    A   l_s(F1) + l_s(F2)                               moves everything
    B   l_s(F1) + l_s(F2) - trade_off mean |p1 - p2|    moves the heads: they disagree on the target
    C   trade_off mean |p1 - p2|                        moves the encoder, `moves` times: they agree again

|p1 - p2| is the mean over target rows and classes. A prediction is F1 + F2. Source and target take a forward
pass each, as in the authors' code.

`code` (SMA's class, of which no result is reported): the heads are frozen before C and never again let go, so
that they move in the first step alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, mean

if TYPE_CHECKING:
    from shiftdata.baselines.engine import Trainer


def discrepancy(scores: Tensor, other: Tensor) -> Tensor:
    """How far two heads' probabilities lie apart: the mean over rows and classes."""
    return (scores.softmax(1) - other.softmax(1)).abs().mean()


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Parameters that get no gradient meanwhile, so that the optimiser leaves them alone."""
    moved = [one for module in modules for one in module.parameters() if one.requires_grad]
    for one in moved:
        one.requires_grad_(False)
    try:
        yield
    finally:
        for one in moved:
            one.requires_grad_(True)


class MCD(Method):
    """Maximum classifier discrepancy: heads differ on the target, the encoder learns not to let them."""

    several_moves = True
    needs = frozenset({"target"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    trade_off = Hyper(
        1.0, low=0.1, high=10.0, log=True, source="Saito et al.: 1; Transfer-Learning-Library: 10"
    )
    moves = Hyper(4, choices=(1, 2, 3, 4), source="Saito et al.: 2 to 4 of digits, 4 of VisDA")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.other = copy.deepcopy(network.head)
        for module in self.other.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()  # equal heads would never disagree

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        heads = self.network.head, self.other
        unmoved = heads if self.variant == "code" and batch.step else ()
        with frozen(*unmoved):
            fitted = trainer.descend(self.fitted(self.network.features(batch.x), batch))
            with torch.no_grad():
                z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
            trainer.descend(self.fitted(z, batch) - self.apart(z_target))
        with frozen(*heads):
            for _ in range(int(self.moves)):
                trainer.descend(self.apart(self.network.features(batch.unlabelled)))
        return fitted

    def fitted(self, z: Tensor, batch: Batch) -> Tensor:
        """What both heads lose on the source."""
        losses = [
            cross_entropy(head(z), batch.y, reduction="none") for head in (self.network.head, self.other)
        ]
        return mean(losses[0] + losses[1], batch.weight)

    def apart(self, z_target: Tensor) -> Tensor:
        """How far the heads lie apart on the target."""
        return self.trade_off * discrepancy(self.network.head(z_target), self.other(z_target))

    def predict(self, x: Tensor) -> Tensor:
        z = self.network.features(x)
        scores: Tensor = self.network.head(z) + self.other(z)
        return scores
