"""GroupDRO: the weighted sum of group losses, with more weight on the worse (Sagawa et al., ICLR 2020).

Rows are drawn so that each group comes equally often, as in the paper's algorithm; L_g is a mean, so this
changes how often a group is seen, not what it weighs when it is.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup
from shiftdata.baselines.networks import Network


class GroupDRO(Method):
    """`losses.GroupDRO` of groups; `code` (group_DRO) draws rows as they are, and absent groups grow too."""

    needs = frozenset({"groups"})
    sampler = "rwg"
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    eta = Hyper(0.1, low=1e-3, high=1.0, log=True, source="SMA; group_DRO: 0.01", variants={"code": 0.01})
    adjustment = Hyper(0.0, choices=(0, 1, 2, 3, 4, 5), source="group_DRO: C of C / sqrt(n_g)")

    def __init__(self, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(variant=variant, **given)
        if variant == "code":
            self.sampler = "shuffle"

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        counts = self.counts(sizes)
        # Every group has a row to fit; the engine's numbers leave no gap.
        bonus = self.adjustment / counts.clamp(min=1).float().sqrt()
        self.dro = losses.GroupDRO(len(counts), self.eta, bonus, absent_grow=self.variant == "code")

    def loss(self, batch: Batch) -> Tensor:
        each = losses.cross_entropies(self.network(batch.x), batch.y)
        return self.dro.update(each, self.cells(batch), batch.weight)

    def counts(self, sizes: Setup) -> Tensor:
        """Return the number of training rows of each group."""
        return sizes.group_counts

    def cells(self, batch: Batch) -> Tensor:
        """Return the group of each row."""
        return batch.group


class GroupDRODomains(GroupDRO):
    """GroupDRO with domains for groups and as many rows of each in a batch, as in DomainBed."""

    needs = frozenset({"domains"})
    sampler = "per-domain"
    variants = ("fixed",)
    eta = Hyper(0.01, low=1e-3, high=0.1, log=True, source="DomainBed")

    def counts(self, sizes: Setup) -> Tensor:
        return sizes.domain_counts

    def cells(self, batch: Batch) -> Tensor:
        return batch.domain
