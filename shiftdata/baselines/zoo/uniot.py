"""UniOT: l_s + trade_off (`private` + `common` of `losses.UniOT`), by cosines (Chang et al., NeurIPS 2022).

One coupling over the unlabelled rows, after training, decides about every row by itself.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from shiftdata.baselines import losses
from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, Stage
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import IntArray

HIDDEN, WIDTH = 2048, 256


class UniOT(Method):
    """Unified optimal transport: common classes by an unbalanced transport, private ones by clusters."""

    needs = frozenset({"target", "unknown"})
    sampler = "rwy"
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    code_version: ClassVar[int] = 3  # 2: evaluations couple the whole target; 3: the queue is in order
    trade_off = Hyper(0.1, low=0.01, high=1.0, log=True, source="authors' code")
    temperature = Hyper(0.1, low=0.05, high=0.5, log=True, source="authors' code")
    similar = Hyper(0.7, low=0.5, high=0.9, source="authors' code: gamma")
    momentum = Hyper(0.7, low=0.5, high=1.0, source="authors' code: mu of Office-31 and VisDA; SMA")
    clusters = Hyper(50, choices=(12, 50, 150), source="authors' code: Office-31 50, Office-Home 150; SMA 12")
    queue = Hyper(2000, choices=(32, 500, 2000), source="authors' code: Office-31", variants={"code": 32})
    delay = Hyper(0.01, low=0.0, high=0.1, source="authors' code: 100 of 10,000 steps", variants={"code": 0})

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.project = nn.Sequential(nn.Linear(sizes.features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))
        self.classes, self.centres = (
            nn.Parameter(normalize(torch.randn(number, WIDTH), dim=1))
            for number in (sizes.classes, int(self.clusters))
        )
        size = max(1, min(int(self.queue), sizes.target_rows))
        self.state = losses.UniOT(sizes.classes, WIDTH, size, self.momentum, self.similar, self.temperature)

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        first = torch.randperm(self.sizes.target_rows)[: len(self.state.queue)]
        z = self.target(trainer, first.numpy())
        self.state.update(z, first.to(z.device))
        self.state.couple(z, self.classes)

    def loss(self, batch: Batch) -> Tensor:
        features, of_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
        assert batch.target_row is not None
        with losses.exactly(features):
            z, z_target = self.unit(features), self.unit(of_target)
            loss = losses.cross_entropy(z @ self.classes.T / self.temperature, batch.y)
            if batch.progress >= self.delay:
                loss = loss + self.trade_off * self.state.common(z_target, self.classes)
            if self.variant != "code":
                loss = loss + self.trade_off * self.state.private(z_target, batch.target_row, self.centres)
            self.state.update(z_target.detach(), batch.target_row)
        return loss

    def unit(self, features: Tensor) -> Tensor:
        """Return the projection of each row's features, of length 1."""
        return normalize(self.project(features.to(self.classes)), dim=1)

    @torch.no_grad()
    def target(self, trainer: Trainer, rows: IntArray) -> Tensor:
        """Return the projection of rows of the target."""
        features = trainer.features(trainer.data.unlabelled[rows])
        return self.unit(torch.from_numpy(features).to(self.classes.device))

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        for prototypes in (self.classes, self.centres):
            prototypes.copy_(normalize(prototypes, dim=1))

    def finish(self, trainer: Trainer) -> None:
        self.state.couple(self.target(trainer, np.arange(self.sizes.target_rows)), self.classes)

    def predict(self, x: Tensor) -> Tensor:
        return self.state.predict(self.unit(self.network.features(x)), self.classes)
