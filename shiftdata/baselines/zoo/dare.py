"""DARE: a head on whitened features, whitened for each domain by its own covariance (Rosenfeld et al. 2022).

    source (z - mu_s) S_s^-1/2 -> a logistic regression W, b;  predict W ((z - mu_t) S_t^-1/2) + b
    S shrunk: .99 S + .01 (mean eigenvalue) I

The encoder is ERM's. The head's problem is convex and solved to its minimum, with |W|^2 / (2 C N) beside the
mean loss; the rows are those that the sampler draws in an epoch. A target c z + b of the source, c > 0, is
predicted alike; a general linear map is undone only up to a rotation. The rows of the source that models are
selected by are predicted by the same head with the source's whitening; all others as the target's.

`code` (RLSbench, as "CORAL"): nothing is centred, S is the second moment. (It fits the head by 3 passes of
SGD.)
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Hyper, Setup, Stage
from shiftdata.baselines.methods.erm import ERM
from shiftdata.errors import InputError

SHRINKAGE = 0.01


def whitening(z: Tensor, centred: bool = True) -> tuple[Tensor, Tensor]:
    """The mean that is subtracted, and S^-1/2."""
    mu = z.mean(0) if centred else torch.zeros_like(z[0])
    moment = (z - mu).T @ (z - mu) / len(z)
    level = moment.diagonal().mean()  # the mean eigenvalue
    values, vectors = torch.linalg.eigh((1 - SHRINKAGE) * moment)
    values = values.clamp(min=0) + SHRINKAGE * level
    values = torch.where(values > 0, values, 1)  # all rows are equal: left as they are
    return mu, vectors @ torch.diag(values.rsqrt()) @ vectors.T


def logistic_regression(z: Tensor, y: Tensor, classes: int, strength: float) -> tuple[Tensor, Tensor]:
    """Weight and bias that minimise the mean cross-entropy + |weight|^2 / (2 strength N)."""
    weight = torch.zeros(classes, z.shape[1], dtype=z.dtype, requires_grad=True)
    bias = torch.zeros(classes, dtype=z.dtype, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weight, bias],
        max_iter=500,
        tolerance_grad=1e-6,
        tolerance_change=1e-10,
        line_search_fn="strong_wolfe",
    )

    def evaluated() -> Tensor:
        solver.zero_grad()
        loss = cross_entropy(z @ weight.T + bias, y) + weight.square().sum() / (2 * strength * len(z))
        torch.autograd.backward(loss)
        return loss

    solver.step(evaluated)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()


class DARE(ERM):
    """ERM, then a new head on features that are whitened, the source's and the target's each by its own."""

    needs = frozenset({"target"})
    variants = ("fixed", "code")
    code_version: ClassVar[int] = 2  # 2: evaluations predict with the new head, source rows as the source's
    strength = Hyper(1.0, low=1e-3, high=1e3, log=True, source="scikit-learn's C of logistic regression")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("refitted", torch.tensor(False))
        for side in ("", "source_"):
            self.register_buffer(f"{side}mu", torch.zeros(known.features))
            self.register_buffer(f"{side}whitener", torch.eye(known.features))
        self.register_buffer("weight", torch.zeros(known.classes, known.features))
        self.register_buffer("bias", torch.zeros(known.classes))

    def reads_target(self, stage: Stage) -> bool:
        return False  # but all of it at the end

    def finish(self, trainer: Trainer) -> None:
        data, drawn, centred = trainer.data, trainer.drawn(0), self.variant == "fixed"
        if data.target is None or not len(data.target):
            raise InputError("dare whitens the target's features, and the target has no row")
        z, z_target = (
            torch.from_numpy(trainer.features(rows)).double() for rows in (data.rows[drawn], data.target)
        )
        if not (torch.isfinite(z).all() and torch.isfinite(z_target).all()):
            raise InputError("dare cannot whiten features that are not finite: lower learning_rate")
        fitted = dict(zip(("source_mu", "source_whitener"), whitening(z, centred), strict=True))
        y, whitened = (
            torch.from_numpy(np.asarray(data.y[drawn])),
            (z - fitted["source_mu"]) @ fitted["source_whitener"],
        )
        fitted |= zip(
            ("weight", "bias"), logistic_regression(whitened, y, data.classes, self.strength), strict=True
        )
        fitted |= zip(("mu", "whitener"), whitening(z_target, centred), strict=True)
        for name, value in fitted.items():
            self.get_buffer(name).copy_(value)
        self.get_buffer("refitted").fill_(True)

    def predict(self, x: Tensor) -> Tensor:
        return self._predict(x, "") if self.get_buffer("refitted") else super().predict(x)

    def predict_source(self, x: Tensor) -> Tensor:
        return self._predict(x, "source_") if self.get_buffer("refitted") else super().predict_source(x)

    def _predict(self, x: Tensor, side: str) -> Tensor:
        z = self.network.features(x).float() - self.get_buffer(f"{side}mu")
        z = z @ self.get_buffer(f"{side}whitener")
        return z @ self.get_buffer("weight").T + self.get_buffer("bias")
