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
from torch.nn.functional import one_hot

from shiftdata.baselines.methods.coral import CORAL
from shiftdata.baselines.methods.domains import exactly

GAMMAS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


def kernels(z: Tensor) -> Tensor:
    """The sum of the Gaussian kernels between all rows."""
    # From differences: the rounding of |x|^2 + |y|^2 - 2 xy, times 1000, would part a row from itself.
    distances = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist") ** 2
    return torch.stack([torch.exp(-gamma * distances) for gamma in GAMMAS]).sum(0)


def mmd(sets: Sequence[Tensor]) -> Tensor:
    """The squared discrepancy between the features of domains, on average over their pairs."""
    n = len(sets)
    if n < 2:
        return torch.zeros(())
    with exactly(sets[0]):
        z = torch.cat(list(sets)).float()
        sizes = torch.tensor([len(one) for one in sets], device=z.device)
        of = one_hot(torch.arange(n, device=z.device).repeat_interleave(sizes), n) / sizes
        between = of.T @ kernels(z) @ of  # mean kernels, n x n
        gap: Tensor = 2 * (n * between.trace() - between.sum()) / (n * (n - 1))
        return gap


class MMD(CORAL):
    """ERM, and a penalty on how well kernels tell the features of domains apart."""

    variants = ("fixed",)

    def penalty(self, sets: Sequence[Tensor]) -> Tensor:
        return mmd(sets)
