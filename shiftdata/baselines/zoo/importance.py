"""IW-DANN and IW-CDAN: source rows weighed by label shift (Tachet des Combes et al., NeurIPS 2020).

    w = argmin |C w - mu|^2 over w >= 0, p_s . w = 1    C[i, j] = mean p_i 1[y = j], mu = mean target p

once an epoch, from the predictions made in it, with a moving average: w <- momentum w + (1 - momentum) w_new.
w[y] multiplies a source row's share of l_s and of the domain loss. p_s are the shares of the labels drawn in
the epoch, so that a sampler which balances them needs nothing more; a class without a source row keeps 1.

`paper` does not weigh l_s. `code` (RLSbench and the authors) multiplies losses of the shape (B,) by weights
of the shape (B, 1): the mean of that matrix is mean(loss) mean(w), so that no row weighs more than another.
The authors' problem also has C mu where C' mu is right.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines.method import Batch, Hyper, Setup
from shiftdata.baselines.methods.cdan import CDAN
from shiftdata.baselines.methods.dann import DANN, Adversarial
from shiftdata.label_shift.regularized import SMALLEST, ridge
from shiftdata.metrics.arrays import FloatArray


def class_weights(confusion: FloatArray, observed: FloatArray) -> FloatArray:
    """The w >= 0 with p_s . w = 1 that minimises |C w - mu|^2; where several do, the one nearest to 1."""
    curvature = confusion.T @ confusion
    kappa = SMALLEST * max(float(np.linalg.norm(curvature, 2)), float(np.finfo(float).tiny))
    prior = confusion.sum(axis=0)
    return ridge(curvature, confusion.T @ observed, kappa, prior, np.ones(len(observed)))


class Weighted(Adversarial):
    """What IW-DANN and IW-CDAN share."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper", "code")
    momentum = Hyper(0.5, low=0.0, high=1.0, source="Tachet des Combes et al.; RLSbench")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("weights", torch.ones(known.classes))
        self.register_buffer("confusion", torch.zeros(known.classes, known.classes))
        self.register_buffer("observed", torch.zeros(known.classes))
        self.register_buffer("seen", torch.zeros(2, dtype=torch.int64))  # rows of source and target

    def importance(self, batch: Batch, scores: Tensor, scores_target: Tensor) -> Tensor:
        self._count(batch, scores.detach(), scores_target.detach())
        weight = self.get_buffer("weights")[batch.y]
        return weight.mean().expand_as(weight) if self.variant == "code" else weight

    def fit_importance(self, importance: Tensor) -> Tensor:
        return torch.ones_like(importance) if self.variant == "paper" else importance

    def after_step(self, batch: Batch) -> None:
        if self.get_buffer("seen")[0] >= self.known.rows:
            self._renew()

    def _count(self, batch: Batch, scores: Tensor, scores_target: Tensor) -> None:
        truth = torch.nn.functional.one_hot(batch.y, self.known.classes).to(batch.weight.dtype)
        share = truth * batch.weight[:, None]
        self.get_buffer("confusion").add_(torch.softmax(scores, 1).float().T @ share)
        self.get_buffer("observed").add_(torch.softmax(scores_target, 1).float().sum(0))
        self.get_buffer("seen").add_(torch.tensor([len(scores), len(scores_target)]).to(scores.device))

    def _renew(self) -> None:
        sums, observed = (self.get_buffer(name) for name in ("confusion", "observed"))
        confusion = (sums / sums.sum()).double().cpu().numpy()
        share = (observed / observed.sum()).double().cpu().numpy()
        weights = self.get_buffer("weights")
        if np.isfinite(confusion).all() and np.isfinite(share).all():  # else the loss will say so
            new = torch.from_numpy(class_weights(confusion, share)).to(weights)
            weights.mul_(self.momentum).add_((1 - self.momentum) * new)
        for name in ("confusion", "observed", "seen"):
            self.get_buffer(name).zero_()

    def _as_sma(self) -> bool:
        return False


class IWDANN(Weighted, DANN):
    """DANN with source rows weighed by the ratio of label shares that predictions point to."""


class IWCDAN(Weighted, CDAN):
    """CDAN with source rows weighed by the ratio of label shares that predictions point to."""
