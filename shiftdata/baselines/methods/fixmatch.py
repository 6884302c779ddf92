"""FixMatch: confident labels of a weak view for a strong one (Sohn et al., NeurIPS 2020), as RLSbench has it.

    l of strong views of the source + trade_off (1 / B) sum over rows with max p_w >= tau of CE(f_s, k_w)

The rows are the target's, p_w the probabilities of a weak view, k_w its class, f_s the scores of a strong
one. As in RLSbench the source's rows are strong views too, so that where nothing is confident it is ERM-aug.
The weak view takes a pass without a gradient, in train mode, as in the authors' code: with the statistics of
its batch, and dropout.

`paper` (RLSbench's formula): rows whose *strong* view is confident; its code, like FixMatch, asks the weak
one. That code takes the mean over confident rows times their share: NaN times 0 where there is none.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Method, mean


def weak_label_losses(weak: Tensor, strong: Tensor, tau: float, by_strong: bool = False) -> Tensor:
    """Each row's loss on its strong view with the class of its weak one, 0 where there is no confidence."""
    label = weak.detach().argmax(1)
    confidence = (strong if by_strong else weak).detach().softmax(1).max(1).values
    losses = cross_entropy(strong.float(), label, reduction="none")
    return torch.where(confidence >= tau, losses, 0)


class FixMatch(Method):
    """ERM on strong views, the target's with the labels that the network is sure of on weak ones."""

    needs = frozenset({"target", "pixels"})
    strong_views = 1
    target_strong_views = 1
    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper")
    tau = Hyper(0.9, low=0.7, high=0.95, source="RLSbench; range: unlabelled WILDS")
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="RLSbench; range: unlabelled WILDS")

    def loss(self, batch: Batch) -> Tensor:
        scores = self.network(batch.strong[0])
        fitted = mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)
        with torch.no_grad():
            weak = self.network(batch.unlabelled)
        strong = self.network(batch.target_strong[0])
        losses = weak_label_losses(weak, strong, self.tau, by_strong=self.variant == "paper")
        return fitted + self.trade_off * losses.mean()
