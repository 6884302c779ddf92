"""Weighted means, the rows of each domain, and arithmetic that mixed precision leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from shiftdata.errors import InputError

__all__ = ["check_1d", "cross_entropies", "cross_entropy", "exactly", "mean", "rows_of_each"]


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


def cross_entropies(logits: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy of each row."""
    return functional.cross_entropy(logits, y, reduction="none")


def cross_entropy(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the weighted mean of the rows' cross-entropies."""
    return mean(cross_entropies(logits, y), weight)


def rows_of_each(domain: Tensor) -> dict[int, Tensor]:
    """Return the positions of the rows of each domain (or group) of the batch, in the order of numbers."""
    check_1d(domain=domain)
    order = torch.argsort(domain, stable=True)
    numbers, counts = torch.unique_consecutive(domain[order], return_counts=True)
    return dict(zip(numbers.tolist(), torch.split(order, counts.tolist()), strict=True))


def check_1d(**tensors: Tensor) -> None:
    """Refuse anything but one number a row: a matrix where a vector belongs averages weights away."""
    for name, tensor in tensors.items():
        if tensor.ndim != 1:
            raise InputError(f"{name} has the shape {tuple(tensor.shape)}: give one number a row")


class State(nn.Module):
    """The memory of a loss between batches, as buffers: saved and moved with the model."""

    def __init__(self, **buffers: Tensor) -> None:
        super().__init__()
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Tensor: ...


def exactly(x: Tensor) -> torch.autocast:
    """Switch mixed precision off: rounding to 16 bits would exceed differences of moments."""
    return torch.autocast(x.device.type, enabled=False)


def precise(x: Tensor) -> Tensor:
    """Return 16-bit tensors as float32, others unchanged."""
    return x.float() if x.dtype.itemsize < 4 else x
