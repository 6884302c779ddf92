"""Methods that learn from their own predictions on the target.

Pseudo-labels: l_s + trade_off min(1, progress / ramp) `losses.pseudo_label` (Lee 2013; RLSbench).
Noisy Student: teachers label the target for students that see noise (Xie et al., CVPR 2020; RLSbench).
SENTRY: ERM, then with `losses.sentry` and `losses.sentry_balance` (Prabhu et al., ICCV 2021).
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Data, Hyper, Method, Stage
from shiftdata.baselines.methods.label_shift import pseudo_balanced
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import IntArray
from shiftdata.evaluation.sampling import RowSampler


class PseudoLabel(Method):
    """ERM, and the same on target rows that it is confident of, with its own prediction as the label."""

    needs = frozenset({"target"})
    tau = Hyper(0.9, low=0.7, high=0.95, source="RLSbench; range: unlabelled WILDS")
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="RLSbench; range: unlabelled WILDS")
    ramp = Hyper(0.4, low=0.0, high=1.0, source="RLSbench: 40 % of the steps")

    def loss(self, batch: Batch) -> Tensor:
        logits, logits_target = self.network(batch.x), self.network(batch.unlabelled)
        risen = min(1.0, batch.progress / self.ramp) if self.ramp else 1.0
        target = losses.pseudo_label(logits_target, self.tau)
        return losses.cross_entropy(logits, batch.y) + self.trade_off * risen * target


TEACH, LABEL = "teach", "label"


class NoisyStudent(Method):
    """Self-training in rounds: a fresh network learns its teacher's labels from augmented pictures."""

    needs = frozenset({"target", "pixels"})
    code_version: ClassVar[int] = 2  # 2: only the last student is a checkpoint
    strong_views = 1
    target_strong_views = 1
    rounds = Hyper(2, choices=(1, 2, 3), source="RLSbench: 2; Xie et al.: 3")
    dropout = Hyper(0.5, low=0.0, high=0.7, source="RLSbench")

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("labels", torch.zeros(len(data.target), dtype=torch.int64))

    def stages(self) -> Sequence[Stage]:
        stages = [Stage(TEACH)]
        for number in range(1, int(self.rounds) + 1):
            stages += [Stage(f"{LABEL} {number}", 0.0), Stage(f"student {number}", fresh=True)]
        return stages

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if stage.name.startswith(LABEL):
            predicted = trainer.scores(trainer.data.target).argmax(axis=1)
            self.get_buffer("labels").copy_(torch.from_numpy(predicted))

    def reads_target(self, stage: Stage) -> bool:
        return stage.name.startswith("student")

    def loss(self, batch: Batch) -> Tensor:
        if batch.stage == TEACH:
            return losses.cross_entropy(self.network(batch.strong[0]), batch.y)
        fitted = losses.cross_entropy(self.noisy(batch.strong[0]), batch.y)
        labels = self.get_buffer("labels")[batch.target_row]
        return fitted + cross_entropy(self.noisy(batch.target_strong[0]), labels)

    def noisy(self, x: Tensor) -> Tensor:
        """Return logits of features of which a share is dropped."""
        logits: Tensor = self.network.head(dropout(self.network.features(x), self.dropout, self.training))
        return logits


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

    def setup(self, network: Network, data: Data) -> None:
        super().setup(network, data)
        self.register_buffer("pseudo_labels", torch.zeros(len(data.target), dtype=torch.int64))
        self.recent = losses.RecentShares(data.classes)

    def stages(self) -> Sequence[Stage]:
        return [Stage("source", self.first), Stage("adapt")]

    def reads_target(self, stage: Stage) -> bool:
        return stage.name == "adapt"

    def target_rows(self, trainer: Trainer, shuffled: RowSampler, epoch: int, begins: bool) -> IntArray:
        return pseudo_balanced(trainer, self.get_buffer("pseudo_labels"), epoch, begins)

    def loss(self, batch: Batch) -> Tensor:
        fitted = losses.cross_entropy(self.network(batch.x), batch.y)
        if batch.stage == "source":
            return fitted
        weak = self.network(batch.unlabelled)
        agreed = losses.sentry(weak, [self.network(view) for view in batch.target_strong], self.variant)
        balanced = losses.sentry_balance(weak, self.recent.update(weak))
        return fitted + self.committee * agreed + self.balance * balanced
