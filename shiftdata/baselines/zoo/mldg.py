"""MLDG: a step on one domain must help on another (Li et al., AAAI 2018), to first order as in DomainBed.

    1/E sum over pairs (i, j) of G_i + beta G_j'     G_j' the gradient of l_j at theta - rate G_i

The domains of a batch stand in a circle, in an order that is drawn anew every step: each is i once and j
once. `rate` is the training's own at that step. With beta = 0, or one domain in the batch, the step is ERM's.

Passes at theta, one a domain, have the statistics of their domain and move the running ones of batch norm;
those at theta - rate G_i have such statistics too and move nothing.

`code` (DomainBed): the inner step is a fresh Adam's, rate sign(G_i) whatever the size of G_i; the last
`meta_test` domains of the order are j in turn and all others i, once each: of E <= `meta_test` domains there
is no pair, and nothing is trained, in silence; both passes are the copy's, so that the running statistics of
batch norm stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from shiftdata.baselines.distributed import average
from shiftdata.baselines.method import Batch, Hyper, mean
from shiftdata.baselines.methods.domains import AcrossDomains

if TYPE_CHECKING:
    from shiftdata.baselines.engine import Trainer

ADAM_EPS = 1e-8


def pairs(order: Sequence[int], meta_test: int = 0) -> list[tuple[int, int]]:
    """Domains to step on, each with one that it must help: in a circle, or as DomainBed splits them."""
    if not meta_test:
        return list(zip(order, [*order[1:], *order[:1]], strict=True)) if len(order) > 1 else []
    return list(zip(order[: max(0, len(order) - meta_test)], cycle(order[-meta_test:]), strict=False))


def inner_steps(
    gradients: Mapping[str, Tensor], rates: Mapping[str, float], adam: bool = False
) -> dict[str, Tensor]:
    """What is added to each parameter: a step of plain SGD, or the first of a fresh Adam."""
    return {
        name: -rates[name] * (one / (one.abs() + ADAM_EPS) if adam else one)
        for name, one in gradients.items()
    }


class MLDG(AcrossDomains):
    """Meta-learning domain generalisation: the loss on a domain, and on another after a step on the first."""

    several_moves = True
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    beta = Hyper(1.0, low=0.1, high=10.0, log=True, source="DomainBed: mldg_beta")
    meta_test = Hyper(
        0, choices=(0, 1, 2), source="0: a circle; DomainBed: n_meta_test 2; 1 or 2", variants={"code": 2}
    )

    def loss(self, batch: Batch) -> Tensor:
        """ERM's: what a step is where there is nothing to meta-learn."""
        return mean(cross_entropy(self.network(batch.x), batch.y, reduction="none"), batch.weight)

    def step(self, batch: Batch, trainer: Trainer) -> Tensor:
        domains = batch.domains()
        code = self.variant == "code"
        if not code and (not self.beta or len(domains) < 2):
            return super().step(batch, trainer)
        chosen = pairs(torch.randperm(len(domains)).tolist(), int(self.meta_test))
        if not chosen:  # more domains to test on than there are
            return trainer.descend(torch.zeros(())) if code else super().step(batch, trainer)
        rate_of = {
            id(one): group["lr"] for group in trainer.optimizer.param_groups for one in group["params"]
        }
        rates = {name: rate_of.get(id(one), 0.0) for name, one in self.network.named_parameters()}
        parts = [self.pair_loss(batch, domains[i], domains[j], rates) for i, j in chosen]
        return trainer.descend(torch.stack(parts).sum() / len(domains))

    def pair_loss(self, batch: Batch, rows: Tensor, others: Tensor, rates: Mapping[str, float]) -> Tensor:
        """l_i + beta l_j at theta - rate G_i. G_i is a constant in it: the gradient is of first order."""
        moved = {name: one for name, one in self.network.named_parameters() if one.requires_grad}
        own = self.domain_loss(batch, rows, {} if self.variant == "fixed" else self.copied())
        found = torch.autograd.grad(own, list(moved.values()), retain_graph=True, allow_unused=True)
        gradients = {name: one for name, one in zip(moved, found, strict=True) if one is not None}
        average(gradients.values())
        steps = inner_steps(gradients, rates, adam=self.variant == "code")
        clone = {name: moved[name] + step for name, step in steps.items()}
        return own + self.beta * self.domain_loss(batch, others, self.copied() | clone)

    def domain_loss(self, batch: Batch, rows: Tensor, state: Mapping[str, Tensor]) -> Tensor:
        """The mean loss of some rows, by the network with other parameters and buffers."""
        scores = functional_call(self.network, dict(state), (batch.x[rows],))
        return mean(cross_entropy(scores, batch.y[rows], reduction="none"), batch.weight[rows])

    def copied(self) -> dict[str, Tensor]:
        """The network's buffers, to be moved without moving them."""
        return {name: one.clone() for name, one in self.network.named_buffers()}
