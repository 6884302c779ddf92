"""MMD: features with one distribution in all domains, as Gaussian kernels see them (Li et al., CVPR 2018).

    l + trade_off mean (Kxx + Kyy - 2 Kxy)     over pairs of domains; K the mean over pairs of their rows of
    k(x, y) = sum of exp(-g |x - y|^2), g = .001, .01, .1, 1, 10, 100, 1000

DomainBed's form: rows beside themselves count (the biased estimate, never below 0), and distances are not
divided by the number of features: on wide ones only the small g see anything. Fewer than two domains in the
batch: ERM. All pairs of rows are compared: the cost is quadratic in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from shiftdata.baselines.methods.coral import CORAL
from shiftdata.baselines.methods.domains import exactly

GAMMAS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


def kernels(z: Tensor) -> Tensor:
    """The sum of the Gaussian kernels between all rows."""
    z = z - z.detach().mean(0)  # small numbers leave small rounding
    squares = (z * z).sum(1)
    distances = (squares[:, None] + squares - 2 * z @ z.T).clamp(min=0)
    return torch.stack([torch.exp(-gamma * distances) for gamma in GAMMAS]).sum(0)


def mmd(sets: Sequence[Tensor]) -> Tensor:
    """The squared discrepancy between the features of domains, on average over their pairs."""
    n = len(sets)
    if n < 2:
        return torch.zeros(())
    with exactly(sets[0]):
        every = kernels(torch.cat(list(sets)).float())
        sizes = [len(one) for one in sets]
        blocks = [[block.mean() for block in row.split(sizes, 1)] for row in every.split(sizes)]
        pairs = [blocks[i][i] + blocks[j][j] - 2 * blocks[i][j] for i in range(n) for j in range(i + 1, n)]
        return torch.stack(pairs).mean()


class MMD(CORAL):
    """ERM, and a penalty on how well kernels tell the features of domains apart."""

    variants = ("fixed",)

    def penalty(self, sets: Sequence[Tensor]) -> Tensor:
        return mmd(sets)
