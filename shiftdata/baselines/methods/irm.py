"""IRM: a representation on which one head is the best in every domain (Arjovsky et al., 2019).

    l + lam mean over domains of g1 g2     g = d l(s f) / ds at s = 1, of a domain's even and of its odd rows

That derivative is mean over rows of (p - y) . f, with scores f, probabilities p and y as 0 and 1: no second
backward pass. The product of two halves estimates the squared gradient without bias, so it may be negative.
lam is trade_off after a share `anneal` of the steps, and 1, not 0, before; the optimiser is reset there. A
domain of one row in the batch has no two halves and adds nothing (DomainBed: NaN). l is the mean over all
rows: with the sampler's equal numbers, the mean over domains.

`paper`: the square of the gradient over all rows of a domain: biased by its variance, never negative.

DomainBed-v2 searches lam in [1e-5, .1]: almost ERM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, check_1d, mean
from shiftdata.baselines.methods.domains import Annealed


def scale_gradients(scores: Tensor, y: Tensor) -> Tensor:
    """The derivative of each row's cross-entropy by a factor on its scores, at 1."""
    scores = scores.float()
    p = torch.softmax(scores, 1)
    return (p * scores).sum(1) - scores.gather(1, y[:, None])[:, 0]


def irm(gradients: Tensor, domains: Sequence[Tensor], halves: bool = True) -> Tensor:
    """The penalty from one derivative a row, and the rows of each domain."""
    check_1d(gradients=gradients)
    each = [gradients[rows] for rows in domains if len(rows) > halves]
    if not each:
        return gradients.new_zeros(())
    if not halves:
        return torch.stack([one.mean() ** 2 for one in each]).mean()
    return torch.stack([one[::2].mean() * one[1::2].mean() for one in each]).mean()


class IRM(Annealed):
    """ERM, and a penalty where a domain would have the scores scaled up or down."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper")
    trade_off = Hyper(100.0, low=0.1, high=1e5, log=True, source="DomainBed")
    anneal = Hyper(0.1, low=2e-4, high=1.0, log=True, source="DomainBed: 500 of 5,000 steps; 1 to 10,000")

    def loss(self, batch: Batch) -> Tensor:
        scores = self.network(batch.x)
        fitted = mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)
        weight = self.trade_off if self.annealed(batch.progress) else 1.0
        penalty = irm(scale_gradients(scores, batch.y), batch.domains(), halves=self.variant == "fixed")
        return fitted + weight * penalty
