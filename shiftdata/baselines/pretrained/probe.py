"""Linear probes: multinomial logistic regression on features, by L-BFGS in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.losses.groups import standard
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.threads import torch_threads

#: Strengths of the penalty to choose from, the strongest first: each fit begins where the last one ended.
GRID = tuple(10.0**power for power in range(1, -6, -1))
#: The strength where no validation set chooses one.
L2 = 1e-3
#: Iterations of a fit at most, and the largest derivative at which it ends.
ITERATIONS, TOLERANCE = 500, 1e-6


class LinearProbe:
    """The minimum over W and b, on standardised features, of cross-entropy and a penalty.

        mean_i CE(W z_i' + b, y_i) + l2 / 2 |W|^2        z' = (z - mean) / deviation

    scikit-learn's `LogisticRegression(C=1 / (l2 rows))` has the same minimum. The bias is free; that of a
    class without rows falls until the fit ends.
    """

    def __init__(self, z: NDArray[np.float32], y: IntArray, classes: int) -> None:
        if not np.isfinite(z).all():
            raise InputError("a linear probe needs features that are finite numbers, and some are not")
        if len(np.unique(y)) < 2:
            raise InputError(f"{len(z):,} rows of one class: a linear probe needs rows of two")
        self.center, self.deviation = (torch.from_numpy(each) for each in standard(z.astype(np.float64)))
        self.x, self.y = (torch.from_numpy(z).double() - self.center) / self.deviation, torch.from_numpy(y)
        self.theta = torch.zeros(classes, z.shape[1] + 1, dtype=torch.float64)

    def fit(self, l2: float) -> tuple[Tensor, Tensor]:
        """Return W and b for features as they are, from the last fit on."""
        theta = self.theta.requires_grad_()
        descent = torch.optim.LBFGS(
            [theta], max_iter=ITERATIONS, tolerance_grad=TOLERANCE, tolerance_change=1e-14, history_size=20,
            line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure() -> Tensor:
            descent.zero_grad()
            fitted = cross_entropy(self.x @ theta[:, :-1].T + theta[:, -1], self.y)
            loss: Tensor = fitted + l2 / 2 * theta[:, :-1].square().sum()
            torch.autograd.backward(loss)
            return loss

        with torch.enable_grad(), torch_threads():
            descent.step(closure)  # type: ignore[no-untyped-call]
        self.theta = theta.detach()
        weight = self.theta[:, :-1] / self.deviation
        return weight, self.theta[:, -1] - weight @ self.center


def best_of(
    probe: LinearProbe, judge: Callable[[Tensor, Tensor], float] | None, strengths: Sequence[float] = ()
) -> tuple[Tensor, Tensor, float]:
    """Return W, b and the strength whose fit `judge` rates highest; of equal ones the strongest.

    Without a judge the strength is the first of those given, or `L2`.
    """
    if judge is None:
        l2 = strengths[0] if strengths else L2
        return *probe.fit(l2), l2
    fits = [(*probe.fit(l2), l2) for l2 in sorted(strengths or GRID, reverse=True)]
    return max(fits, key=lambda fit: np.nan_to_num(judge(*fit[:2]), nan=-np.inf))
