"""JTT: train again, with more copies of the rows that a first model gets wrong (Liu et al., ICML 2021).

identify   ERM for a share `first` of the steps; error set E = training rows that it then predicts wrongly
retrain    from the first weights, each row as often as `losses.jtt_weights` says
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from shiftdata.baselines.losses import jtt_weights
from shiftdata.baselines.method import Hyper, Setup, Stage, TrainerAPI
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError


class ErrorSetWarning(UserWarning):
    """The first model of JTT makes no error on the training set: there is nothing to copy."""


class JTT(ERM):
    """ERM, then ERM with copies of the rows that the first model got wrong.

    `paper` (and the authors' code): 1 + up copies. `code` (BalancingGroups, SMA): the second
    training has the steps that the first leaves. (Theirs marks errors in train mode, which moves batch norm.)
    """

    variants = ("fixed", "paper", "code")
    code_version = 3  # 3: `code` marks errors in eval mode too

    first = Hyper(0.15, choices=(0.05, 0.15, 0.25), source="SMA: 1, 3 or 5 of 20 epochs")
    up = Hyper(20, choices=(4, 20, 50, 100), source="SMA")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        if min(self.up, self.first) < 0 or self.up % 1 or self.total_copies < 1:
            raise InputError(f"jtt with first={self.first:g}, up={self.up:g}: give a share, and whole copies")
        self.register_buffer("wrong", torch.zeros(sizes.rows, dtype=torch.bool))

    @property
    def total_copies(self) -> int:
        """Return how often a row of the error set comes."""
        return int(self.up) + (self.variant == "paper")

    def stages(self) -> Sequence[Stage]:
        again = max(0.0, 1 - self.first) if self.variant == "code" else 1.0
        return [Stage("identify", self.first), Stage("mark", 0.0), Stage("retrain", again, fresh=True)]

    def begin(self, stage: Stage, trainer: TrainerAPI) -> None:
        if stage.name == "identify" and trainer.method.sampler != "shuffle":
            raise InputError(f"jtt chooses how often a row comes: leave {trainer.method.sampler!r} out")
        if stage.name != "mark":
            return
        data = trainer.data
        wrong = trainer.scores(data.rows).argmax(axis=1) != data.y
        self.get_buffer("wrong").copy_(torch.from_numpy(wrong))
        if not wrong.any():
            warnings.warn(
                f"jtt: the first model is right on all {len(wrong):,} training rows, so there is nothing to "
                f"copy: lower first ({self.first:g}), or raise weight_decay",
                ErrorSetWarning,
                stacklevel=2,
            )
        elif self.total_copies > 1:
            trainer.counts = jtt_weights(torch.from_numpy(wrong), self.total_copies).numpy()

    def report(self) -> dict[str, Any]:
        return {"error_set": int(self.get_buffer("wrong").sum())}
