"""DARE: a head on features that `losses.whitening` whitens, each domain's alone (Rosenfeld et al., 2022)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines import losses
from shiftdata.baselines.losses.reduce import precise
from shiftdata.baselines.method import Hyper, Setup, Stage, TrainerAPI
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError


def logistic_regression(z: Tensor, y: Tensor, classes: int, strength: float) -> Tensor:
    """Return weights and, last, the bias that minimise the mean loss + |weights|^2 / (2 strength N)."""
    head = torch.zeros(classes, z.shape[1] + 1, dtype=z.dtype, requires_grad=True)
    solver = torch.optim.LBFGS([head], max_iter=500, tolerance_change=1e-10, line_search_fn="strong_wolfe")

    def evaluated() -> Tensor:
        solver.zero_grad()
        loss = losses.cross_entropy(z @ head[:, :-1].T + head[:, -1], y)
        loss = loss + head[:, :-1].square().sum() / (2 * strength * len(z))
        torch.autograd.backward(loss)
        return loss

    solver.step(evaluated)  # type: ignore[no-untyped-call]
    return head.detach()


class DARE(ERM):
    """ERM, then a new head on features that are whitened, the source's and the target's each by its own."""

    needs = frozenset({"target"})
    variants = ("fixed", "code")
    code_version: ClassVar[int] = 2  # 2: evaluations predict with the new head, source rows as the source's
    strength = Hyper(1.0, low=1e-3, high=1e3, log=True, source="scikit-learn's C of logistic regression")

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.register_buffer("refitted", torch.tensor(False))
        # The heads of target and source: whitening is a part of them, the bias the last column.
        self.register_buffer("heads", torch.zeros(2, sizes.classes, sizes.features + 1))

    def reads_target(self, stage: Stage) -> bool:
        return False  # but all of it at the end

    def finish(self, trainer: TrainerAPI) -> None:
        data, drawn, centred = trainer.data, trainer.drawn(0), self.variant == "fixed"
        if data.target is None or not len(data.target):
            raise InputError("dare whitens the target's features, and the target has no row")
        z, z_target = (
            torch.from_numpy(trainer.features(rows)).double() for rows in (data.rows[drawn], data.target)
        )
        if not (torch.isfinite(z).all() and torch.isfinite(z_target).all()):
            raise InputError("dare cannot whiten features that are not finite: lower learning_rate")
        mu, whitener = losses.whitening(z, centred)
        y = torch.from_numpy(np.asarray(data.y[drawn]))
        fitted = logistic_regression((z - mu) @ whitener, y, data.classes, self.strength)
        for head, rows in zip(self.get_buffer("heads"), (z_target, z), strict=True):
            mu, whitener = losses.whitening(rows, centred)
            weight = fitted[:, :-1] @ whitener
            head.copy_(torch.cat([weight, fitted[:, -1:] - weight @ mu[:, None]], 1))
        self.get_buffer("refitted").fill_(True)

    def predict(self, x: Tensor) -> Tensor:
        return self._predict(x, 0)

    def predict_source(self, x: Tensor) -> Tensor:
        return self._predict(x, 1)

    def _predict(self, x: Tensor, side: int) -> Tensor:
        if not self.get_buffer("refitted"):
            return super().predict(x)
        head = self.get_buffer("heads")[side]
        return precise(self.network.features(x)) @ head[:, :-1].T + head[:, -1]
