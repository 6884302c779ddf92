"""ERM, and the same with rows drawn or kept so that classes or groups weigh alike (BalancingGroups)."""

from __future__ import annotations

from torch import Tensor

from shiftdata.baselines.losses import cross_entropy
from shiftdata.baselines.method import Batch, Method


class ERM(Method):
    """Empirical risk minimisation, the mean loss; also known as DeepAll and source-only."""

    def loss(self, batch: Batch) -> Tensor:
        return cross_entropy(self.network(batch.x), batch.y)


class ERMAug(Method):
    """ERM on strong views of pictures: RandAugment and Cutout, as RLSbench trains its sources."""

    needs = frozenset({"pixels"})
    strong_views = 1

    def loss(self, batch: Batch) -> Tensor:
        return cross_entropy(self.network(batch.strong[0]), batch.y)


class RWY(ERM):
    """ERM on rows drawn with replacement so that each class comes equally often."""

    sampler = "rwy"


class RWG(ERM):
    """ERM on rows drawn with replacement so that each group comes equally often."""

    sampler = "rwg"
    needs = frozenset({"groups"})


class SUBY(ERM):
    """ERM on as many rows of each class as the smallest class has, drawn once a seed."""

    sampler = "suby"


class SUBG(ERM):
    """ERM on as many rows of each group as the smallest group has, drawn once a seed."""

    sampler = "subg"
    needs = frozenset({"groups"})
