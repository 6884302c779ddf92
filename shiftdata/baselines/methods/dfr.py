"""DFR: ERM's encoder, and a last layer fitted on group-balanced rows of validation (Kirichenko et al. 2023).

    z' = (z - mean) / deviation of the rows to select by
    W, b = mean over `fits` of argmin cross-entropy + |W|_1 / C        each on equally many rows of each group

C is the one of `GRID` with the best worst group: half of each group is fitted, the other half judges; ties go
to the smaller C. mean and deviation are folded into W and b, which become the network's head. A class without
a row there is not predicted any more. All groups need labels on validation, and only there.

It trains on the rows to select by: its score there is not a validation score and must not choose between runs
(`trains_on_select` in the record).

The regression is a softmax over all classes with summed losses, and no penalty on its bias.

`code` (the authors): scikit-learn's liblinear, which penalises |b| like a weight and fits each class against
the rest; about 1 % of rows get another class. Scaled by the balanced half for the choice of C, by all rows to
fit for the last fits: C means two things. (SpuCo fits the last layer on the half alone.)
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Hyper, Setup, Stage
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.metrics.arrays import FloatArray, IntArray
from shiftdata.stable import rng

#: From the sparsest on.
GRID = (0.01, 0.03, 0.07, 0.1, 0.3, 0.7, 1.0)
#: The score of a class that validation lacks.
NEVER = -1e4


def balanced(group: IntArray, generator: np.random.Generator, share: float | None = None) -> IntArray:
    """Positions of as many rows of each group as the smallest has; or of a share of each, rounded up."""
    shuffled = [generator.permutation(np.flatnonzero(group == one)) for one in np.unique(group)]
    smallest = min(map(len, shuffled))
    sizes = [smallest if share is None else int(np.ceil(share * len(rows))) for rows in shuffled]
    return np.sort(np.concatenate([rows[:size] for rows, size in zip(shuffled, sizes, strict=True)]))


def standard(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean and the deviation of each number; 1 where it does not vary."""
    deviation = z.std(axis=0)
    return z.mean(axis=0), np.where(deviation > 1e-6 * (1 + np.abs(z).max(axis=0)), deviation, 1)


def sparse_regression(
    z: FloatArray, y: IntArray, c: float, classes: int, seed: int, released: bool = False
) -> FloatArray:
    """Weights and, last, the bias of each class: logistic regression with an L1 penalty.

    `released` penalises the bias too and fits each class against the rest, as the authors' solver does.
    """
    linear_model = require("sklearn.linear_model", "dfr")
    exceptions = require("sklearn.exceptions", "dfr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)  # a mean of fits needs no last digit
        make, present = linear_model.LogisticRegression, np.unique(y)
        # Before scikit-learn 1.8 l1_ratio is read only with "elasticnet", which liblinear does not have.
        old = make().penalty == "l2"
        if released:
            kind = {"penalty": "l1"} if old else {"l1_ratio": 1.0}
            solver = {"solver": "liblinear", **kind}
        else:
            kind = {"penalty": "elasticnet"} if old else {}
            solver = {"solver": "saga", "l1_ratio": 1.0, "max_iter": 300, "tol": 1e-3, **kind}
        against_rest = released and len(present) > 2
        models = [
            make(C=c, random_state=seed, **solver).fit(z, truth)
            for truth in ([y == one for one in present] if against_rest else [y])
        ]
    fitted = np.concatenate([np.column_stack([one.coef_, one.intercept_]) for one in models])
    if len(present) == 2:  # one row for the second class: shared out to both
        fitted = np.concatenate([-fitted, fitted]) / 2
    made = np.zeros((classes, z.shape[1] + 1))
    made[:, -1] = NEVER
    made[present] = fitted
    return made


class DFR(ERM):
    """Deep feature reweighting: ERM, then a sparse last layer on group-balanced rows of validation."""

    needs = frozenset({"select"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    trains_on_select = True
    code_version: ClassVar[int] = 3  # 2: `code` has liblinear's penalised bias; 3: evaluations refit the head

    c = Hyper(0, choices=(0, *GRID), source="Kirichenko et al.: chosen by the worst group, here 0")
    fits = Hyper(20, low=1, high=50, source="Kirichenko et al.")

    def setup(self, network: Network, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("chosen", torch.zeros(()))

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        data = trainer.data
        if data.select is None or data.select_y is None or len(np.unique(data.select_y)) < 2:
            raise InputError("dfr fits the last layer on the rows to select by: give some of two classes")
        head = self.network.head
        if not isinstance(head, nn.Linear) or head.bias is None:
            raise InputError(f"dfr replaces a linear head with a bias, and this is a {type(head).__name__}")

    def finish(self, trainer: Trainer) -> None:
        data = trainer.data
        assert data.select is not None
        assert data.select_y is not None
        z, y = trainer.features(data.select).astype(float), data.select_y
        group = y if data.select_group is None else data.select_group
        released = self.variant == "code"
        z_fit = trainer.features(data.rows).astype(float) if released else z
        if not (np.isfinite(z).all() and np.isfinite(z_fit).all()):
            raise InputError("dfr cannot fit a head on features that are not finite: lower learning_rate")
        c = self.c or self._choose(z, y, group, trainer)
        mean, deviation = standard(z_fit)
        made = np.zeros((self.known.classes, z.shape[1] + 1))
        equal = len(set(np.bincount(group)[np.unique(group)].tolist())) == 1
        fits = 1 if equal else int(self.fits)  # of groups of one size every balanced subset is all rows
        for number in range(fits):
            rows = balanced(group, rng(trainer.seed, "baselines", "dfr", number))
            scaled = (z[rows] - mean) / deviation
            made += sparse_regression(scaled, y[rows], c, len(made), number, released) / fits
        weight = made[:, :-1] / deviation
        head = self.network.head
        assert isinstance(head, nn.Linear)
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(weight))
            head.bias.copy_(torch.from_numpy(made[:, -1] - weight @ mean))
        self.get_buffer("chosen").fill_(c)

    def report(self) -> dict[str, Any]:
        return {"c": round(float(self.get_buffer("chosen")), 6)}

    def _choose(self, z: FloatArray, y: IntArray, group: IntArray, trainer: Trainer) -> float:
        """The C whose worst group is best, then whose mean group is."""
        generator = rng(trainer.seed, "baselines", "dfr", "choice")
        fitted = balanced(group, generator, share=0.5)
        judged = np.setdiff1d(np.arange(len(y)), fitted)
        if not len(judged):  # one row a group
            return 1.0
        rows = fitted[balanced(group[fitted], generator)]
        released = self.variant == "code"
        mean, deviation = standard(z[rows] if released else z)
        scaled = (z - mean) / deviation
        best, found = (-1.0, -1.0), 1.0
        for c in GRID:
            made = sparse_regression(scaled[rows], y[rows], c, self.known.classes, 0, released)
            right = (scaled[judged] @ made[:, :-1].T + made[:, -1]).argmax(1) == y[judged]
            groups = [float(right[group[judged] == one].mean()) for one in np.unique(group[judged])]
            if (min(groups), float(np.mean(groups))) > best:
                best, found = (min(groups), float(np.mean(groups))), c
        return found
