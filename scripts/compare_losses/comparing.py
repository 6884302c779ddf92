"""A comparison of a loss with an independent implementation: values and gradients on random tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor

Function = Callable[..., Tensor]
Draw = Callable[[torch.Generator], Sequence[Tensor]]
TRIALS = 3


@dataclass(frozen=True)
class Comparison:
    """Two functions of the same tensors that must agree.

    `inputs` draws the tensors from a generator. `needs` are the modules of peers that `theirs` imports. The
    comparison is of the value and of the gradient by each floating-point tensor that the value depends on.
    """

    name: str
    ours: Function
    theirs: Function
    inputs: Draw
    needs: tuple[str, ...] = ()
    tolerance: float = 1e-4

    def missing(self) -> list[str]:
        """Return the modules that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]

    def difference(self, seed: int) -> float:
        """Return the largest relative difference over several draws."""
        generator = torch.Generator().manual_seed(seed)
        draws = [self.inputs(generator) for _ in range(TRIALS)]
        return max(
            relative(ours, theirs)
            for inputs in draws
            for ours, theirs in zip(
                _value_and_gradients(self.ours, inputs),
                _value_and_gradients(self.theirs, inputs),
                strict=True,
            )
        )


def value(
    name: str, ours: Function, theirs: Function, inputs: Draw, needs: tuple[str, ...] = ()
) -> Comparison:
    """Compare functions without a gradient."""

    def detached(function: Function) -> Function:
        return lambda *tensors: function(*(x.detach() for x in tensors)).detach()

    return Comparison(name, detached(ours), detached(theirs), inputs, needs)


def relative(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference as a share of the largest number; infinite for NaN or another shape."""
    if ours.shape != theirs.shape or not (ours.isfinite().all() and theirs.isfinite().all()):
        return float("inf")
    scale = float(theirs.abs().max())
    apart = float((ours.double() - theirs.double()).abs().max())
    return apart / scale if scale else apart


def _value_and_gradients(function: Function, inputs: Sequence[Tensor]) -> list[Tensor]:
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    torch.manual_seed(0)
    value = function(*inputs)
    leaves = [x for x in inputs if x.requires_grad]
    if not value.requires_grad:
        return [value, *(torch.zeros_like(x) for x in leaves)]
    weights = torch.arange(1.0, value.numel() + 1).view(value.shape).to(value)  # entries count apart
    gradients = torch.autograd.grad((weights * value).sum(), leaves, allow_unused=True)
    zeros = (torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients, strict=True))
    return [value.detach(), *zeros]


def two_sets(rows: int, others: int, features: int) -> Draw:
    """Draw two sets of features that differ in mean and scale."""

    def draw(generator: torch.Generator) -> Sequence[Tensor]:
        x = torch.randn(rows, features, generator=generator)
        return x, 2 * torch.randn(others, features, generator=generator) + 0.5

    return draw
