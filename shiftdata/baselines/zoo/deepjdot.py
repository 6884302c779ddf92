"""DeepJDOT: optimal transport between joint source and target of a batch (Damodaran et al., ECCV 2018).

    gamma = argmin over couplings of sum gamma_ij (a |z_i - z_j|^2 + b L(y_i, f_j)), the network as it is
    l_s + sum gamma_ij (a |z_i - z_j|^2 + b CE(y_i, f_j))

The coupling is exact, with equal mass on every row. As in the authors' code (`fixed`) it is computed in eval
mode with L = |onehot(y_i) - p_j|^2, and source rows are drawn by class, each equally often. `paper`: L is the
cross-entropy there too.

`code` (SMA) takes the cosine *similarity* of z_i and z_j and the probability p_j[y_i] for costs. Both signs
are inverted: it couples the rows that are least alike, and then makes them less alike.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, one_hot

from shiftdata.baselines.method import Batch, Hyper, Method, mean
from shiftdata.baselines.methods.dann import both_features
from shiftdata.baselines.networks import evaluating
from shiftdata.extras import require
from shiftdata.metrics.arrays import FloatArray

PURPOSE = "the optimal transport of deepjdot"


def distances(z: Tensor, other: Tensor) -> Tensor:
    """Squared distances of all pairs; exactly 0 for equal rows."""
    return torch.cdist(z, other, compute_mode="donot_use_mm_for_euclid_dist").square()


def label_losses(y: Tensor, scores: Tensor) -> Tensor:
    """The cross-entropy of each label (row) with each prediction (column)."""
    return -torch.log_softmax(scores, 1).T[y]


def coupling(cost: FloatArray) -> FloatArray:
    """The cheapest way to move equal masses on the rows to equal masses on the columns.

    For as many rows as columns a cheapest coupling is a permutation (Birkhoff): the assignment problem. Other
    shapes, of whole sets in one batch, are a linear programme.
    """
    rows, columns = cost.shape
    optimize = require("scipy.optimize", PURPOSE)
    if rows == columns:
        plan = np.zeros(cost.shape)
        plan[optimize.linear_sum_assignment(cost)] = 1 / rows
        return plan
    sparse = require("scipy.sparse", PURPOSE)
    sums = sparse.vstack(
        [
            sparse.kron(sparse.eye_array(rows), np.ones((1, columns))),
            sparse.kron(np.ones((1, rows)), sparse.eye_array(columns)),
        ]
    )
    masses = np.concatenate([np.full(rows, 1 / rows), np.full(columns, 1 / columns)])
    solved = optimize.linprog(cost.ravel(), A_eq=sums, b_eq=masses, method="highs")
    made: FloatArray = np.asarray(solved.x).reshape(cost.shape)
    return made


class DeepJDOT(Method):
    """Joint distribution optimal transport: target rows get the labels of the source rows they couple to."""

    needs = frozenset({"target"})
    sampler = "rwy"
    variants = ("fixed", "paper", "code")
    distance = Hyper(0.01, low=1e-3, high=1.0, log=True, source="authors' code", variants={"code": 0.56})
    label = Hyper(1.0, low=0.1, high=10.0, log=True, source="authors' code", variants={"code": 0.19})
    source = Hyper(1.0, low=0.1, high=10.0, log=True, source="authors' paper", variants={"code": 4.88})
    joint = Hyper(1, choices=(0, 1), source="authors' code: 1")

    def loss(self, batch: Batch) -> Tensor:
        plan = self.plan(batch)
        z, z_target = both_features(self, batch, bool(self.joint))
        losses = cross_entropy(self.network.head(z), batch.y, reduction="none")
        cost = self.costs(batch.y, z, z_target, self.network.head(z_target))
        return self.source * mean(losses, batch.weight) + (plan * cost).sum()

    def costs(self, y: Tensor, z: Tensor, z_target: Tensor, scores: Tensor) -> Tensor:
        """What a coupling of each source row with each target row costs, as it is trained."""
        if self.variant == "code":
            alike = normalize(z, dim=1) @ normalize(z_target, dim=1).T
            return self.distance * alike + self.label * torch.softmax(scores, 1).T[y]
        return self.distance * distances(z, z_target) + self.label * label_losses(y, scores)

    @torch.no_grad()
    def plan(self, batch: Batch) -> Tensor:
        """The coupling, with the network as it is; equal everywhere if costs are not finite."""
        with evaluating(self):
            z, z_target = self.network.features(batch.x), self.network.features(batch.unlabelled)
            scores = self.network.head(z_target)
        cost = self.costs(batch.y, z, z_target, scores)
        if self.variant == "fixed":
            truth = one_hot(batch.y, scores.shape[1]).to(scores.dtype)
            apart = distances(truth, torch.softmax(scores, 1))
            cost = self.distance * distances(z, z_target) + self.label * apart
        if not torch.isfinite(cost).all():
            return torch.full_like(cost, 1 / cost.numel())  # the loss is not finite either, and says so
        return torch.from_numpy(coupling(cost.double().cpu().numpy())).to(cost)
