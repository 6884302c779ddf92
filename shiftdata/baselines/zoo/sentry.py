"""SENTRY: ERM, then with `losses.sentry` and `losses.sentry_balance` (Prabhu et al., ICCV 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, Stage, TrainerAPI
from shiftdata.baselines.methods.rs import pseudo_balanced
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import IntArray
from shiftdata.evaluation.sampling import RowSampler


class SENTRY(Method):
    """Selective entropy optimisation: trust target rows whose views agree, doubt the others."""

    needs = frozenset({"target", "pixels"})
    sampler = "rwy"
    target_strong_views = 3
    code_version: ClassVar[int] = 2  # 2: `code` takes the shares of recent predictions too
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    committee = Hyper(1.0, low=0.1, high=10.0, log=True, source="Prabhu et al., RLSbench")
    balance = Hyper(0.1, low=0.01, high=1.0, log=True, source="Prabhu et al., RLSbench")
    first = Hyper(1.0, low=0.0, high=1.0, source="Prabhu et al.: a source model", variants={"code": 0})

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.register_buffer("pseudo_labels", torch.zeros(sizes.target_rows, dtype=torch.int64))
        self.recent = losses.RecentShares(sizes.classes)

    def stages(self) -> Sequence[Stage]:
        return [Stage("source", self.first), Stage("adapt")]

    def reads_target(self, stage: Stage) -> bool:
        return stage.name == "adapt"

    def target_rows(self, trainer: TrainerAPI, shuffled: RowSampler, epoch: int, begins: bool) -> IntArray:
        return pseudo_balanced(trainer, self.get_buffer("pseudo_labels"), epoch, begins)

    def loss(self, batch: Batch) -> Tensor:
        fitted = losses.cross_entropy(self.network(batch.x), batch.y, batch.weight)
        if batch.stage == "source":
            return fitted
        weak = self.network(batch.unlabelled)
        agreed = losses.sentry(weak, [self.network(view) for view in batch.target_strong], self.variant)
        balanced = losses.sentry_balance(weak, self.recent.update(weak))
        return fitted + self.committee * agreed + self.balance * balanced
