"""Losses of groups: means, the worst group, copies of errors, a last layer on balanced rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftdata.baselines.losses.reduce import State, check_1d
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.stable import rng

__all__ = ["GroupDRO", "dfr", "group_means", "jtt_weights"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: The values of C that DFR chooses from, from the sparsest on.
GRID = (0.01, 0.03, 0.07, 0.1, 0.3, 0.7, 1.0)
#: The logit of a class without rows.
NEVER = -1e4


def group_means(losses: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return the mean loss of each group, 0 for one without rows; and a mask of groups with rows.

    `losses` has one loss a row, `group` numbers from 0 to `groups` - 1.
    """
    check_1d(losses=losses, group=group)
    totals = losses.new_zeros(groups).index_add(0, group, losses)
    counts = losses.new_zeros(groups).index_add(0, group, torch.ones_like(losses))
    return totals / counts.clamp(min=1), counts > 0


def group_dro_log_q(
    log_q: Tensor,
    means: Tensor,
    eta: float | Tensor,
    bonus: float | Tensor = 0.0,
    grows: Tensor | None = None,
) -> Tensor:
    """Return log q after q_g <- q_g exp(eta (L_g + bonus_g)) of the groups that grow, and q <- q / sum q.

    The last dimension is that of the groups: `means` is ... x groups, eta a number or ... x 1. By default
    all groups grow.
    """
    growth = means + bonus if grows is None else torch.where(grows, means + bonus, 0)
    return torch.log_softmax(log_q + eta * growth, -1)


class GroupDRO(State):
    """The weighted sum of group losses, with more weight on the worse (Sagawa et al., ICLR 2020).

        L_g = mean loss of the batch's rows of group g
        q_g <- q_g exp(eta (L_g + bonus_g))       of the groups in the batch; then q <- q / sum q
        loss = sum over these groups of q_g L_g   q is a constant for the gradient

    `bonus` is C / sqrt(n_g) in the paper, n_g the training rows of a group; by default 0. q begins at 1/G and
    is stored as log q: products of exp overflow float32. `absent_grow`, the variant `code` (the authors): a
    group that the batch lacks grows by its bonus.
    """

    def __init__(
        self, groups: int, eta: float = 0.1, bonus: Tensor | None = None, absent_grow: bool = False
    ) -> None:
        bonus = torch.zeros(groups) if bonus is None else bonus
        super().__init__(log_q=torch.full((groups,), 1 / groups).log(), bonus=bonus)
        self.eta, self.absent_grow = eta, absent_grow

    def update(self, losses: Tensor, group: Tensor) -> Tensor:
        """Update q by a batch, and return the batch's loss."""
        means, present = group_means(losses, group, len(self.log_q))
        grows = present | self.absent_grow
        self.log_q.copy_(group_dro_log_q(self.log_q, means.detach(), self.eta, self.bonus, grows))
        return (self.log_q.exp() * means).sum()


def jtt_weights(wrong: Tensor, up: int) -> Tensor:
    """Return how often each row comes: `up` times if a first model gets it wrong, else once.

    Source: just train twice, Liu et al., ICML 2021. `up` + 1 is the variant `paper`, which adds copies.
    """
    check_1d(wrong=wrong)
    return torch.where(wrong, up, 1)


def dfr(
    z: Tensor,
    y: Tensor,
    group: Tensor,
    classes: int,
    c: float = 0.0,
    fits: int = 20,
    seed: int = 0,
    scale_by: Tensor | None = None,
) -> tuple[Tensor, Tensor, float]:
    """Return weight, bias and C of a last layer for features z (DFR; Kirichenko et al., ICLR 2023).

        z' = (z - mean) / deviation
        W, b = mean over `fits` of argmin cross-entropy + |W|_1 / C    each on as many rows of each group

    The rows are of a validation set. C is the one of `GRID` with the best worst group, unless `c` sets it:
    half of each group is fitted, the other half judges; ties go to the mean group, then to the smaller C.
    mean and deviation, of all rows, are folded into W and b. Losses are summed, and the bias is free.
    `scale_by`, the variant `code` (the authors), are features of the training set that scale the last fits
    (the balanced half scales those that choose C); liblinear penalises |b| too, each class against the rest.
    """
    features, labels, groups = _array(z, float), _array(y, np.int64), _array(group, np.int64)
    released = scale_by is not None
    base = features if scale_by is None else _array(scale_by, float)
    if not (np.isfinite(features).all() and np.isfinite(base).all()):
        raise InputError("dfr cannot fit a head on features that are not finite: lower learning_rate")
    c = c or _choose_c(features, labels, groups, classes, seed, released)
    center, deviation = standard(base)
    total = np.zeros((classes, features.shape[1] + 1))
    if len(set(np.unique(groups, return_counts=True)[1].tolist())) == 1:
        fits = 1  # every balanced subset is all rows
    for number in range(fits):
        rows = balanced(groups, rng(seed, "baselines", "dfr", number))
        scaled = (features[rows] - center) / deviation
        total += sparse_regression(scaled, labels[rows], c, classes, number, released) / fits
    weight = total[:, :-1] / deviation
    bias = total[:, -1] - weight @ center
    return torch.from_numpy(weight).to(z), torch.from_numpy(bias).to(z), c


def _array(tensor: Tensor, dtype: Any) -> NDArray[Any]:
    return tensor.detach().cpu().numpy().astype(dtype)


def _choose_c(z: Floats, y: Ints, group: Ints, classes: int, seed: int, released: bool) -> float:
    """Return the C with the best worst group, then the best mean group."""
    generator = rng(seed, "baselines", "dfr", "choice")
    fitted = balanced(group, generator, share=0.5)
    judged = np.setdiff1d(np.arange(len(y)), fitted)
    if not len(judged):  # one row a group
        return 1.0
    rows = fitted[balanced(group[fitted], generator)]
    center, deviation = standard(z[rows] if released else z)
    scaled = (z - center) / deviation
    best, chosen = (-1.0, -1.0), 1.0
    for c in GRID:
        head = sparse_regression(scaled[rows], y[rows], c, classes, 0, released)
        right = (scaled[judged] @ head[:, :-1].T + head[:, -1]).argmax(1) == y[judged]
        accuracies = [float(right[group[judged] == number].mean()) for number in np.unique(group[judged])]
        quality = min(accuracies), float(np.mean(accuracies))
        if quality > best:
            best, chosen = quality, c
    return chosen


def balanced(group: Ints, generator: np.random.Generator, share: float | None = None) -> Ints:
    """Draw positions of as many rows of each group as the smallest has; or of a share of each, rounded up."""
    shuffled = [generator.permutation(np.flatnonzero(group == number)) for number in np.unique(group)]
    smallest = min(map(len, shuffled))
    sizes = [smallest if share is None else int(np.ceil(share * len(rows))) for rows in shuffled]
    return np.sort(np.concatenate([rows[:size] for rows, size in zip(shuffled, sizes, strict=True)]))


def standard(z: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the deviation of each feature; 1 where it does not vary."""
    deviation = z.std(axis=0)
    return z.mean(axis=0), np.where(deviation > 1e-6 * (1 + np.abs(z).max(axis=0)), deviation, 1)


def sparse_regression(
    z: Floats, y: Ints, c: float, classes: int, seed: int, released: bool = False
) -> Floats:
    """Return weights and, last, the bias of each class: logistic regression with an L1 penalty.

    `released` penalises the bias too and fits each class against the rest, as the authors' solver does.
    """
    linear_model = require("sklearn.linear_model", "dfr")
    exceptions = require("sklearn.exceptions", "dfr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)  # a mean of fits needs no last digit
        regression, present = linear_model.LogisticRegression, np.unique(y)
        # Before scikit-learn 1.8 l1_ratio is read only with "elasticnet", which liblinear does not have.
        old = regression().penalty == "l2"
        if released:
            settings = {"solver": "liblinear", **({"penalty": "l1"} if old else {"l1_ratio": 1.0})}
        else:
            settings = {"solver": "saga", "l1_ratio": 1.0, "max_iter": 300, "tol": 1e-3}
            settings |= {"penalty": "elasticnet"} if old else {}
        against_rest = released and len(present) > 2
        models = [
            regression(C=c, random_state=seed, **settings).fit(z, truth)
            for truth in ([y == label for label in present] if against_rest else [y])
        ]
    fitted = np.concatenate([np.column_stack([model.coef_, model.intercept_]) for model in models])
    if len(present) == 2:  # one row w for the second class: softmax(-w/2, w/2) is sigmoid(w)
        fitted = np.concatenate([-fitted, fitted]) / 2
    head = np.zeros((classes, z.shape[1] + 1))
    head[:, -1] = NEVER
    head[present] = fitted
    return head
