"""StableNet: rows weighed so that features become independent (Zhang et al., CVPR 2021).

    sum over rows of softmax(w)_i l_i
    w after some steps of SGD from 1 on   sum over i != j of C_ij^2 / penalty + sum of softmax(w)^2

C is the covariance, over the batch and a memory, of random Fourier features sqrt(2) cos(omega_j z_j + phi_j)
with the weights softmax(w, memory's w): E[ab] - E[a] E[b], as the authors' code and not their paper. omega is
normal and phi uniform from 0 to 2 pi, one of each a feature and drawn anew at every step of SGD, which has
momentum .9 and a tenth of its rate in the second half. w moves nothing but itself: features are as they are.

A single row has no covariance, and as the sum grows with the number of features squared, w ends there where
they are very many (here 20,000) or `penalty` is small: a batch then teaches one row.

The memory is a moving average of the first rows of the batches and of their w, slot by slot: the plain mean
of the first ten, then `keep` of the old and the rest of the new. With weight_steps = 0 it is ERM.

`code`: one omega for all features; phases are stretched to 0 .. pi/2 within each *row*, so that a feature's
own size is lost; cos + sin, which is nearly constant there. Weights then stay about 1 / B.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, check_1d, mean
from shiftdata.baselines.methods.domains import exactly

MOMENTUM = 0.9
TINY = 1e-12


def fourier(z: Tensor) -> Tensor:
    """A random Fourier feature of each feature, with a frequency and a phase of its own."""
    omega, phi = torch.randn(z.shape[1]), 2 * math.pi * torch.rand(z.shape[1])
    return math.sqrt(2) * torch.cos(z * omega.to(z) + phi.to(z))


def fourier_as_released(z: Tensor) -> Tensor:
    """The same with one frequency for all, and phases stretched to a quarter of a circle within each row."""
    omega, phi = torch.randn(()), 2 * math.pi * torch.rand(z.shape[1])
    phase = z * omega.to(z) + phi.to(z)
    phase = phase - phase.amin(1, keepdim=True)
    phase = phase / phase.amax(1, keepdim=True).clamp(min=TINY) * (math.pi / 2)
    return math.sqrt(2) * (torch.cos(phase) + torch.sin(phase))


def dependence(made: Tensor, share: Tensor) -> Tensor:
    """The sum of the squared covariances of different columns, rows weighed by `share`, which sums to 1.

    Of fewer rows than columns from inner products of rows: |C|^2 = sum over rows a, b of s_a s_b <a, b>^2.
    """
    check_1d(share=share)
    centred = made - share @ made
    variances = share @ centred.square()
    if len(made) < made.shape[1]:
        whole = share @ (centred @ centred.T).square() @ share
    else:
        whole = ((share[:, None] * centred).T @ centred).square().sum()
    return whole - variances.square().sum()


def decorrelating(
    z: Tensor, memory: Tensor, memory_w: Tensor, *, steps: int, rate: float, penalty: float, released: bool
) -> Tensor:
    """The w of each row of the batch, before the softmax."""
    every, draw = torch.cat([z, memory]), fourier_as_released if released else fourier
    w, velocity = torch.ones(len(z), device=z.device), torch.zeros(len(z), device=z.device)
    for step in range(steps):
        w.requires_grad_()
        share = torch.softmax(torch.cat([w, memory_w]), 0)
        loss = dependence(draw(every), share) / penalty + torch.softmax(w, 0).square().sum()
        velocity = MOMENTUM * velocity + torch.autograd.grad(loss, w)[0]
        w = w.detach() - rate * (1.0 if 2 * step < steps else 0.1) * velocity
    return w


class StableNet(Method):
    """ERM with rows weighed so that features depend on each other as little as they can."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    weight_steps = Hyper(20, choices=(20,), source="the authors: epochb")
    rate = Hyper(1.0, low=0.1, high=10.0, log=True, source="the authors: lrbl 1, no range")
    penalty = Hyper(70.0, low=10.0, high=700.0, log=True, source="the authors: lambdap 70, no range")
    memory = Hyper(128, choices=(128,), source="the authors: n_feature, their batch")
    keep = Hyper(0.9, low=0.5, high=0.99, source="the authors: presave_ratio .9, no range")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        slots = int(self.memory)
        self.register_buffer("kept", torch.zeros(slots, known.features))
        self.register_buffer("kept_w", torch.zeros(slots))
        self.register_buffer("taken", torch.zeros(slots, dtype=torch.int64))  # rows that each slot averages

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        losses = cross_entropy(self.network.head(z), batch.y, reduction="none")
        if not self.weight_steps:
            return mean(losses, batch.weight)
        return mean(losses, batch.weight * torch.softmax(self.learned(z.detach()), 0))

    def learned(self, z: Tensor) -> Tensor:
        """The w of a batch, which the memory takes in."""
        with exactly(z):
            z, filled = z.float(), self.get_buffer("taken") > 0
            w = decorrelating(
                z,
                self.get_buffer("kept")[filled],
                self.get_buffer("kept_w")[filled],
                steps=int(self.weight_steps),
                rate=self.rate,
                penalty=self.penalty,
                released=self.variant == "code",
            )
        kept, kept_w, taken = (self.get_buffer(name) for name in ("kept", "kept_w", "taken"))
        slots = min(len(z), len(taken))
        keep = (taken[:slots] / (taken[:slots] + 1)).clamp(max=self.keep)
        kept[:slots] = keep[:, None] * kept[:slots] + (1 - keep[:, None]) * z[:slots]
        kept_w[:slots] = keep * kept_w[:slots] + (1 - keep) * w[:slots]
        taken[:slots] += 1
        return w
