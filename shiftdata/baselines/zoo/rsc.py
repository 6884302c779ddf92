"""RSC: without the features that an answer rests on most (Huang et al., ECCV 2020), as DomainBed has it.

    g = d f_y / dz; a row's features whose g is above the quantile 1 - f of its g are muted
    .. in rows whose p_y falls by more than the quantile 1 - b of the falls; l of the rows so muted

g is what the head has, not the encoder: with a linear head it is the weight of class y, one mask a class.
f = 0 or b = 0 is ERM.

`code` (DomainBed) mutes what equals the quantile too: one feature of one row at f = b = 0, and every feature
of a head that starts at 0. The authors' own code works on the last feature maps, with half of the steps by
position and half by channel: another method, which is not here; its scores are said to depend on versions of
libraries.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Method, check_1d, mean


def quantile(values: Tensor, share: float) -> Tensor:
    """The quantile along the last dimension, between two values on the line through them; of any size."""
    ordered = values.sort(-1).values
    at = share * (values.shape[-1] - 1)
    low = min(int(at), values.shape[-1] - 1)
    high = min(low + 1, values.shape[-1] - 1)
    return torch.lerp(ordered[..., low], ordered[..., high], at - low)


def most(values: Tensor, share: float, strict: bool = True) -> Tensor:
    """Which values along the last dimension are the top share; with `strict` none that equal the quantile."""
    if strict and share <= 0:
        return torch.zeros_like(values, dtype=torch.bool)
    least = quantile(values, 1 - share)[..., None]
    return values > least if strict else values >= least


def class_gradients(head: nn.Module, z: Tensor, y: Tensor) -> Tensor:
    """The derivative of each row's score of its class by its features."""
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        chosen = head(z).gather(1, y[:, None]).sum()
        (gradients,) = torch.autograd.grad(chosen, z)
    return gradients.float()


def falls(scores: Tensor, muted: Tensor, y: Tensor) -> Tensor:
    """By how much the probability of each row's class falls."""
    before, after = (torch.softmax(one.float(), 1).gather(1, y[:, None])[:, 0] for one in (scores, muted))
    check_1d(before=before)
    return before - after


class RSC(Method):
    """ERM on features without those that raise the right score most."""

    sampler = "per-domain"
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    features_muted = Hyper(1 / 3, low=0.0, high=0.5, source="DomainBed: rsc_f_drop_factor")
    rows_muted = Hyper(1 / 3, low=0.0, high=0.5, source="DomainBed: rsc_b_drop_factor")

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        scores = self.network.head(z * ~self.mask(z, batch.y))
        return mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)

    def mask(self, z: Tensor, y: Tensor) -> Tensor:
        """Which features of which rows are muted."""
        head, strict = self.network.head, self.variant == "fixed"
        features = most(class_gradients(head, z, y), self.features_muted, strict)
        with torch.no_grad():
            fallen = falls(head(z), head(z * ~features), y)
        return features & most(fallen, self.rows_muted, strict)[:, None]
