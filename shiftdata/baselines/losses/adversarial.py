"""Adversarial losses: features that hide the domain from a discriminator, and adversarial examples."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from shiftdata.baselines.losses.reduce import check_1d, mean
from shiftdata.data.arrays import one_of

__all__ = ["adversarial_step", "cdan_map", "dann", "reversal_schedule", "reverse_gradient"]


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, coefficient: float) -> Tensor:
        ctx.coefficient = coefficient
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        return -ctx.coefficient * gradients[0], None


def reverse_gradient(x: Tensor, coefficient: float = 1.0) -> Tensor:
    """Return x, whose gradient g comes back as -coefficient g (Ganin et al., JMLR 2016)."""
    reversal: Tensor = _Reversal.apply(x, coefficient)  # type: ignore[no-untyped-call]
    return reversal


def reversal_schedule(progress: float, slope: float = 10.0) -> float:
    """Return the reversal's coefficient 2 / (1 + exp(-slope progress)) - 1 (Ganin et al., JMLR 2016).

    `progress` is the share of all steps that is done: the coefficient rises from 0 towards 1.
    """
    return 2 / (1 + math.exp(-slope * progress)) - 1


def dann(
    logits_source: Tensor,
    logits_target: Tensor,
    importance: Tensor | None = None,
    importance_target: Tensor | None = None,
    variant: str = "fixed",
) -> Tensor:
    """Return (mean BCE(D(z_s), 1) + mean BCE(D(z_t), 0)) / 2 from a discriminator's logits, one a row.

    The discriminator reads features behind `reverse_gradient` (Ganin et al., JMLR 2016). `importance` is a
    factor of each row's loss. `code` (AdaTime, SMA) adds the two terms, and reverses with coefficient 1 in
    every step.
    """
    one_of("variant", variant, ("fixed", "code"))
    check_1d(logits_source=logits_source, logits_target=logits_target)
    source = bce(logits_source, torch.ones_like(logits_source), reduction="none")
    target = bce(logits_target, torch.zeros_like(logits_target), reduction="none")
    source = source if importance is None else importance * source
    target = target if importance_target is None else importance_target * target
    loss = mean(source) + mean(target)
    return loss if variant == "code" else loss / 2


def cdan_map(z: Tensor, probabilities: Tensor, projection: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Return the input of CDAN's discriminator: vec(p outer z), class by class (Long et al., 2018).

    With `projection`, normal matrices R_z (d x m) and R_p (K x m), it is (z R_z) * (p R_p) / sqrt(m), whose
    inner products are those of vec(p outer z) on average. Detach the probabilities, or the head moves too, as
    in AdaTime and SMA, which pass logits.
    """
    if projection is None:
        return (probabilities[:, :, None] * z[:, None, :]).flatten(1)
    of_z, of_p = projection
    return (z @ of_z) * (probabilities @ of_p) / math.sqrt(of_z.shape[1])


def adversarial_step(
    x: Tensor, origin: Tensor, gradient: Tensor, step: float = 1 / 3, radius: float = 0.5
) -> Tensor:
    """Return P(x + step g / |g|), one step of an L2 attack (Madry et al., ICLR 2018).

    g is the gradient of each row's loss by x, and P moves a row back to within `radius` of its `origin`. The
    defaults are RLSbench's, for pixels from 0 to 1.
    """
    length = gradient.flatten(1).norm(dim=1).clamp(min=1e-10)
    shift = x + step * gradient / length.view(-1, *[1] * (x.ndim - 1)) - origin
    moved: Tensor = origin + shift.flatten(1).renorm(2, 0, radius).view_as(shift)
    return moved
