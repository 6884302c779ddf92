"""Noisy Student: teachers label the target for students that see noise (Xie et al., CVPR 2020; RLSbench)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from shiftdata.baselines import losses
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, Stage, TrainerAPI
from shiftdata.baselines.networks import Network

TEACH, LABEL = "teach", "label"


class NoisyStudent(Method):
    """Self-training in rounds: a fresh network learns its teacher's labels from augmented pictures."""

    needs = frozenset({"target", "pixels"})
    code_version: ClassVar[int] = 2  # 2: only the last student is a checkpoint
    strong_views = 1
    target_strong_views = 1
    rounds = Hyper(2, choices=(1, 2, 3), source="RLSbench: 2; Xie et al.: 3")
    dropout = Hyper(0.5, low=0.0, high=0.7, source="RLSbench")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.register_buffer("labels", torch.zeros(sizes.target_rows, dtype=torch.int64))

    def stages(self) -> Sequence[Stage]:
        stages = [Stage(TEACH)]
        for number in range(1, int(self.rounds) + 1):
            stages += [Stage(f"{LABEL} {number}", 0.0), Stage(f"student {number}", fresh=True)]
        return stages

    def begin(self, stage: Stage, trainer: TrainerAPI) -> None:
        if stage.name.startswith(LABEL):
            assert trainer.data.target is not None  # the method needs one
            predicted = trainer.scores(trainer.data.target).argmax(axis=1)
            self.get_buffer("labels").copy_(torch.from_numpy(predicted))

    def reads_target(self, stage: Stage) -> bool:
        return stage.name.startswith("student")

    def loss(self, batch: Batch) -> Tensor:
        if batch.stage == TEACH:
            return losses.cross_entropy(self.network(batch.strong[0]), batch.y, batch.weight)
        fitted = losses.cross_entropy(self.noisy(batch.strong[0]), batch.y, batch.weight)
        labels = self.get_buffer("labels")[batch.target_row]
        return fitted + cross_entropy(self.noisy(batch.target_strong[0]), labels)

    def noisy(self, x: Tensor) -> Tensor:
        """Return logits of features of which a share is dropped."""
        logits: Tensor = self.network.head(dropout(self.network.features(x), self.dropout, self.training))
        return logits
