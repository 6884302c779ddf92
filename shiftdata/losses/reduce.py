"""Weighted means, checks of shapes, and arithmetic that mixed precision leaves alone."""

from __future__ import annotations

from torch import Tensor, autocast
from torch.nn.functional import cross_entropy

from shiftdata.errors import InputError


def mean(losses: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the weighted mean of one loss a row.

    Both must be 1-D: (B,) times (B, 1) would be a matrix, whose mean is mean(losses) mean(weight).
    """
    if weight is None:
        check_1d(losses=losses)
        return losses.mean()
    if losses.ndim != 1 or losses.shape != weight.shape:
        raise InputError(f"one loss and one weight a row, not {tuple(losses.shape)}, {tuple(weight.shape)}")
    return (losses * weight).sum() / weight.sum()


def erm(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the weighted mean cross-entropy: empirical risk minimisation."""
    return mean(cross_entropy(logits, y, reduction="none"), weight)


def check_1d(**tensors: Tensor) -> None:
    """Refuse anything but one number a row: a matrix where a vector belongs averages weights away."""
    for name, tensor in tensors.items():
        if tensor.ndim != 1:
            raise InputError(f"{name} has the shape {tuple(tensor.shape)}: give one number a row")


def exactly(x: Tensor) -> autocast:
    """Switch mixed precision off: differences of moments would drown in the rounding of 16 bits."""
    return autocast(x.device.type, enabled=False)
