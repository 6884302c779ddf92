"""Losses of domain generalisation, groups and averages against other packages and plain loops.

MMD of pytorch-adapt leaves out the kernel of a row with itself and takes the mean kernel, not the sum; so
does ours here. Its sets are small: from 26 rows on, its distances carry the rounding of a matrix product.
skada's MMD is not compared: its Gaussian kernel reads |x - y|, not the square, so that it is a Laplacian one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from compare_losses.comparing import Comparison, two_sets
from shiftdata.baselines.methods.coral import coral
from shiftdata.baselines.zoo.mmd import GAMMAS, kernels, mmd


def coral_adapt(x: Tensor, y: Tensor) -> Tensor:
    from pytorch_adapt.layers import CORALLoss

    loss: Tensor = CORALLoss()(x, y)
    return loss


def coral_skada(x: Tensor, y: Tensor) -> Tensor:
    from skada.deep.losses import deepcoral_loss

    loss: Tensor = deepcoral_loss(x, y)
    return loss


def unbiased(x: Tensor, y: Tensor) -> Tensor:
    """MMD as pytorch-adapt has it, from ours: the mean kernel, without the kernel of a row with itself."""
    loss = mmd([x, y]) / len(GAMMAS)
    for rows in (x, y):
        kernel = kernels(rows) / len(GAMMAS)
        loss = loss - kernel.mean() + (kernel.sum() - len(rows)) / (len(rows) * (len(rows) - 1))
    return loss


def mmd_adapt(x: Tensor, y: Tensor) -> Tensor:
    from pytorch_adapt.layers import MMDLoss

    loss: Tensor = MMDLoss(kernel_scales=torch.tensor(GAMMAS), mmd_type="quadratic", bandwidth=1.0)(x, y)
    return loss


def coral_paper(x: Tensor, y: Tensor) -> Tensor:
    return coral([x, y], means=False)


COMPARISONS = (
    Comparison("CORAL, pytorch-adapt", coral_paper, coral_adapt, two_sets(20, 7, 16), ("pytorch_adapt",)),
    Comparison("CORAL, skada", coral_paper, coral_skada, two_sets(24, 24, 256), ("skada",)),
    Comparison("MMD, pytorch-adapt", unbiased, mmd_adapt, two_sets(20, 7, 16), ("pytorch_adapt",)),
)
