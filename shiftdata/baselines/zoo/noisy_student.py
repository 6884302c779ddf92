"""Noisy Student: teachers label the target for students that see noise (Xie et al., CVPR 2020; RLSbench).

    teach     l of strong views of the source: ERM-aug
    student   l of strong views of the source + mean CE(f of strong views of the target, the teacher's labels)

A student begins from the first weights, has dropout before its head, and is the next one's teacher. A teacher
labels the whole target once, in eval mode, on pictures as they are. Each student has as many steps as the
first teacher. No confidence is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, Stage, mean

TEACH, LABEL = "teach", "label"


class NoisyStudent(Method):
    """Self-training in rounds: a fresh network learns its teacher's labels from augmented pictures."""

    needs = frozenset({"target", "pixels"})
    code_version: ClassVar[int] = 2  # 2: only the last student is a checkpoint
    strong_views = 1
    target_strong_views = 1
    rounds = Hyper(2, choices=(1, 2, 3), source="RLSbench: 2; Xie et al.: 3")
    dropout = Hyper(0.5, low=0.0, high=0.7, source="RLSbench")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("labels", torch.zeros(known.target_rows, dtype=torch.int64))

    def stages(self) -> Sequence[Stage]:
        made = [Stage(TEACH)]
        for number in range(1, int(self.rounds) + 1):
            made += [Stage(f"{LABEL} {number}", 0.0), Stage(f"student {number}", fresh=True)]
        return made

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        if stage.name.startswith(LABEL):
            assert trainer.data.target is not None  # the method needs one
            predicted = trainer.scores(trainer.data.target).argmax(axis=1)
            self.get_buffer("labels").copy_(torch.from_numpy(predicted))

    def reads_target(self, stage: Stage) -> bool:
        return stage.name.startswith("student")

    def loss(self, batch: Batch) -> Tensor:
        if batch.stage == TEACH:
            scores = self.network(batch.strong[0])
            return mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)
        fitted = cross_entropy(self.noisy(batch.strong[0]), batch.y, reduction="none")
        labels = self.get_buffer("labels")[batch.target_row]
        return mean(fitted, batch.weight) + cross_entropy(self.noisy(batch.target_strong[0]), labels)

    def noisy(self, x: Tensor) -> Tensor:
        """Scores of features of which some are dropped."""
        scores: Tensor = self.network.head(dropout(self.network.features(x), self.dropout, self.training))
        return scores
