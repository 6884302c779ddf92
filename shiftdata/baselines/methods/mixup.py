"""Mixup across domains: rows and labels mixed with those of another domain (Xu et al., AAAI 2020).

    lam l(x', y_i) + (1 - lam) l(x', y_j)     x' = lam x_i + (1 - lam) x_j, lam ~ Beta(alpha, alpha)

The domains of a batch stand in a circle, in an order and with a lam for each that are drawn anew every step;
each row is mixed with a random one of the next domain, and each is partner once where the numbers are equal.
DomainBed pairs the first rows, the second rows, ..; v2 permutes the partner's, as here: with all rows in one
batch the pairs would be the same ones for ever. DomainBed leaves out what the smaller domain has no partner
for, and makes a forward pass a pair; here it is one, with the batch-norm statistics of all rows. One domain
in the batch: rows are mixed within it. alpha 0: ERM. It mixes pixels or numbers; bytes and texts it refuses.

DomainBed-v2's registry has 10^U(-1, -1), always .1, for its alpha.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, mean
from shiftdata.baselines.methods.domains import AcrossDomains
from shiftdata.errors import InputError


def partners(domains: Sequence[Tensor], order: Sequence[int]) -> Tensor:
    """For each row of a batch one of the domain that follows its own in `order`, each about equally often."""
    partner = torch.empty(sum(map(len, domains)), dtype=torch.int64, device=domains[0].device)
    for this, following in zip(order, [*order[1:], *order[:1]], strict=True):
        rows, others = domains[this], domains[following]
        shuffled = others[torch.randperm(len(others)).to(others.device)]
        partner[rows] = shuffled[torch.arange(len(rows), device=others.device) % len(others)]
    return partner


def mixed(x: Tensor, other: Tensor, lam: Tensor) -> Tensor:
    """Rows of `x` and `other`, with `lam` of the former, one a row."""
    lam = lam.view(-1, *[1] * (x.ndim - 1))
    return lam * x + (1 - lam) * other


class Mixup(AcrossDomains):
    """ERM on rows that are mixed, labels too, with rows of another domain."""

    alpha = Hyper(0.2, low=0.1, high=10.0, log=True, source="DomainBed")

    def loss(self, batch: Batch) -> Tensor:
        if not batch.x.is_floating_point():
            raise InputError("mixup mixes pixels or numbers, and this backbone reads neither: take another")
        domains = batch.domains()
        partner = partners(domains, torch.randperm(len(domains)).tolist())
        lam = torch.empty_like(batch.weight)
        for rows, share in zip(domains, self.shares(len(domains)).tolist(), strict=True):
            lam[rows] = share
        scores = self.network(mixed(batch.x, batch.x[partner], lam))
        own = cross_entropy(scores, batch.y, reduction="none")
        others = cross_entropy(scores, batch.y[partner], reduction="none")
        return mean(lam * own + (1 - lam) * others, batch.weight)

    def shares(self, pairs: int) -> Tensor:
        """What each domain keeps of itself."""
        if not self.alpha:
            return torch.ones(pairs)
        return torch.distributions.Beta(self.alpha, self.alpha).sample((pairs,))
