"""GroupDRO: the weighted sum of group losses, with more weight on the worse (Sagawa et al., ICLR 2020).

    L_g = mean loss of the batch's rows of group g
    q_g <- q_g exp(eta (L_g + adjustment / sqrt(n_g)))    of the groups in the batch; then q <- q / sum q
    loss = sum over these groups of q_g L_g               q is a constant for the gradient

q begins at 1/G and is kept as log q: products of exp overflow float32 and end as nan, in the codes of both
sources. Groups are those of the rows to fit; one without a row has no q. Rows are drawn so that each group
comes equally often, as in the paper's algorithm and in BalancingGroups; L_g is a mean, so this changes how
often a group is seen, not what it weighs when it is. With all rows in one batch every group is.

"group-dro-domains" takes domains for groups, with as many rows of each in a batch and eta 0.01, as DomainBed.

`code` (group_DRO): eta 0.01, rows drawn as they are, and a group that is not in the batch grows as well, by
its adjustment. BalancingGroups begins with q = 1, which the first division makes 1/G.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, check_1d
from shiftdata.baselines.networks import Network


def group_means(losses: Tensor, weight: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """The weighted mean loss of each group, 0 for one without rows; and which groups have rows."""
    check_1d(losses=losses, weight=weight, group=group)
    totals = losses.new_zeros(groups).index_add(0, group, losses * weight)
    mass = losses.new_zeros(groups).index_add(0, group, weight.to(losses.dtype))
    return totals / torch.where(mass > 0, mass, 1), mass > 0


def raised(log_q: Tensor, growth: Tensor) -> Tensor:
    """The logarithms of q exp(growth), divided by its sum."""
    return torch.log_softmax(log_q + growth, 0)


class GroupDRO(Method):
    """The loss of the worst groups: weights of groups that grow with their losses."""

    needs = frozenset({"groups"})
    sampler = "rwg"
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")

    eta = Hyper(
        0.1,
        low=1e-3,
        high=1.0,
        log=True,
        source="SMA, BalancingGroups; group_DRO: 0.01",
        variants={"code": 0.01},
    )
    adjustment = Hyper(0.0, choices=(0, 1, 2, 3, 4, 5), source="group_DRO: C of C / sqrt(n_g)")

    def __init__(self, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(variant=variant, **given)
        if variant == "code":
            self.sampler = "shuffle"

    def setup(self, network: Network, known: Setup) -> None:
        super().setup(network, known)
        counts = self.counts(known)
        self.register_buffer("log_q", torch.full((len(counts),), 1 / len(counts)).log())
        # Every group has a row to fit; the engine's numbers leave no gap.
        self.register_buffer("bonus", self.adjustment / counts.clamp(min=1).float().sqrt())

    def loss(self, batch: Batch) -> Tensor:
        losses = cross_entropy(self.network(batch.x), batch.y, reduction="none")
        log_q, bonus = self.get_buffer("log_q"), self.get_buffer("bonus")
        means, present = group_means(losses, batch.weight, self.cells(batch), len(log_q))
        grows = torch.ones_like(present) if self.variant == "code" else present
        log_q.copy_(raised(log_q, self.eta * torch.where(grows, means.detach() + bonus, 0)))
        return (log_q.exp() * means).sum()

    def counts(self, known: Setup) -> Tensor:
        """Rows to fit of each group."""
        return known.group_counts

    def cells(self, batch: Batch) -> Tensor:
        """The group of each row."""
        return batch.group


class GroupDRODomains(GroupDRO):
    """GroupDRO with domains for groups, as in DomainBed."""

    needs = frozenset({"domains"})
    sampler = "per-domain"
    variants: ClassVar[tuple[str, ...]] = ("fixed",)

    eta = Hyper(0.01, low=1e-3, high=0.1, log=True, source="DomainBed")

    def counts(self, known: Setup) -> Tensor:
        return known.domain_counts

    def cells(self, batch: Batch) -> Tensor:
        return batch.domain
