"""OSBP: an unknown class that the target's rows are pushed to or away from (Saito et al., ECCV 2018).

    l_s + trade_off mean_t BCE(p_unknown(GRL_1(z_t)), 1/2)      a head with K + 1 outputs, the last is unknown

The head wants p_unknown = 1/2 on every target row, the encoder behind the reversal wants it elsewhere: rows
become known or unknown. A prediction is the largest of the K + 1.

`code` (SMA): two moves of the optimiser a step, one for each loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, mean
from shiftdata.baselines.methods.dann import reversed_gradient

if TYPE_CHECKING:
    from shiftdata.baselines.engine import Trainer


def boundary_losses(scores: Tensor) -> Tensor:
    """The binary cross-entropy of each row's share of the last class with 1/2."""
    unknown = log_softmax(scores, dim=1)[:, -1]
    known = scores[:, :-1].logsumexp(dim=1) - scores.logsumexp(dim=1)
    return -(unknown + known) / 2


class OSBP(Method):
    """Open-set adaptation by back-propagation: one output more, for rows of no class that is known."""

    several_moves = True
    needs = frozenset({"target", "unknown"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    trade_off = Hyper(1.0, low=0.01, high=10.0, log=True, source="Saito et al.: 1")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.head = nn.Linear(known.features, known.classes + 1)

    def _fitted(self, batch: Batch) -> Tensor:
        scores = self.head(self.network.features(batch.x))
        return mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)

    def _boundary(self, batch: Batch) -> Tensor:
        z = reversed_gradient(self.network.features(batch.unlabelled), 1.0)
        return self.trade_off * boundary_losses(self.head(z)).mean()

    def loss(self, batch: Batch) -> Tensor:
        return self._fitted(batch) + self._boundary(batch)

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        if self.variant == "fixed":
            return super().step(batch, trainer)
        return trainer.descend(self._fitted(batch)) + trainer.descend(self._boundary(batch))

    def predict(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.network.features(x))
        return scores
