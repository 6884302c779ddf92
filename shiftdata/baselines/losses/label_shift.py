"""Weights of source rows under label shift, estimated while a network trains."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot, softmax

from shiftdata.baselines.losses.reduce import State
from shiftdata.evaluation.label_shift.regularized import SMALLEST, ridge

__all__ = ["ClassWeights", "class_weights"]


def class_weights(confusion: Tensor, observed: Tensor) -> Tensor:
    """Return argmin |C w - mu|^2 over w >= 0 with p_s . w = 1 (Tachet des Combes et al., NeurIPS 2020).

    C[i, j] is the mean of p_i 1[y = j] over source rows, p_s its column sums, and mu the mean p of target
    rows. Of several minima it is the one nearest to 1; a class without a source row keeps 1. (The authors'
    problem has C mu where C' mu is right.)
    """
    c, mu = (x.detach().cpu().double().numpy() for x in (confusion, observed))
    curvature = c.T @ c
    # The ridge kappa |w - 1|^2 picks the minimum nearest to 1. It is too small, compared with the
    # curvature, to move a well determined one; `tiny` keeps it above 0 where C is 0.
    kappa = SMALLEST * max(float(np.linalg.norm(curvature, 2)), float(np.finfo(float).tiny))
    weights = ridge(curvature, c.T @ mu, kappa, c.sum(axis=0), np.ones(len(mu)))
    return torch.from_numpy(weights).to(observed)


class ClassWeights(State):
    """The weight w[y] of a source row, a moving average of `class_weights` over epochs.

    w <- momentum w + (1 - momentum) w_new. IW-DANN multiplies a source row's part of the source's loss and of
    the domain loss (`importance` of `dann`) by it; in the paper, not that of the source's loss. The authors'
    code and RLSbench's multiply (B,) by (B, 1), so that every row weighs mean(w).
    """

    def __init__(self, classes: int, momentum: float = 0.5) -> None:
        counted = {"confusion": torch.zeros(classes, classes), "observed": torch.zeros(classes)}
        super().__init__(weights=torch.ones(classes), **counted)
        self.momentum = momentum

    def forward(self, y: Tensor) -> Tensor:
        """Return the weight of each label."""
        return self.weights[y]

    def update(self, logits: Tensor, y: Tensor, logits_target: Tensor) -> None:
        """Count a batch's predictions."""
        truth = one_hot(y, logits.shape[1]).to(self.confusion)
        self.confusion.add_(softmax(logits.detach(), 1).to(self.confusion).T @ truth)
        self.observed.add_(softmax(logits_target.detach(), 1).to(self.observed).sum(0))

    def renew(self) -> None:
        """Estimate the weights from what has been counted, at the end of an epoch, and count from 0 again."""
        if (self.confusion.sum() + self.observed.sum()).isfinite():  # else the loss will say so
            shares = self.confusion / self.confusion.sum(), self.observed / self.observed.sum()
            self.weights.mul_(self.momentum).add_((1 - self.momentum) * class_weights(*shares))
        self.confusion.zero_()
        self.observed.zero_()
