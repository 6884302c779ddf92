"""Fishr: gradients of the head that vary equally in all domains (Rame et al., ICML 2022).

    l + lam mean over domains and entries of (v_e - vbar)^2     vbar the mean of v_e over domains
    v_e <- (gamma sg(v_e) + (1 - gamma) var_e) / (1 - gamma)

var_e is the variance (divided by n) over a domain's rows of the gradients of the head's weights and bias.
The moving average starts from 0 and is divided by 1 - gamma, so that the penalty is 1 / (1 - gamma)^2 times
as large, 400 at .95: ranges of lam count on it. lam is trade_off after a share `anneal` of the steps and 0
before, while averages are kept; the optimiser is reset there.

A row's gradient is (p - y) times its features, hence with A = p - y, Z the features and a column of 1

    var = (A * A)' (Z * Z) / n - (A' Z / n)^2

entry by entry: as much memory as the head, no gradient of single rows. A domain of fewer than two rows in the
batch has no variance and is left out of the step. DomainBed keeps the averages in lists that are not saved: a
resumed run starts from 0. Here they are buffers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from shiftdata.baselines.method import Batch, Hyper, Setup, mean
from shiftdata.baselines.methods.domains import Annealed, exactly
from shiftdata.errors import InputError


def gradient_variance(z: Tensor, scores: Tensor, y: Tensor, bias: bool = True) -> Tensor:
    """The variance over rows of the gradients of a linear head: classes x features, and the bias."""
    with exactly(z):
        away = torch.softmax(scores.float(), 1) - one_hot(y, scores.shape[1])
        read = torch.cat([z.float(), z.new_ones(len(z), int(bias), dtype=torch.float32)], 1)
        return (away**2).T @ read**2 / len(z) - (away.T @ read / len(z)) ** 2


def fishr(variances: Tensor) -> Tensor:
    """The penalty on the variances, one entry of the first dimension a domain."""
    return ((variances - variances.mean(0)) ** 2).mean()


class Fishr(Annealed):
    """ERM, and a penalty where the gradients of the head vary more in one domain than in another."""

    trade_off = Hyper(1000.0, low=10.0, high=1e4, log=True, source="DomainBed")
    anneal = Hyper(0.3, low=0.0, high=1.0, source="DomainBed: 1,500 of 5,000 steps; 0 to 5,000")
    gamma = Hyper(0.95, low=0.9, high=0.99, source="DomainBed: ema")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        if not isinstance(network.head, torch.nn.Linear):
            raise InputError(
                "fishr compares gradients of a linear head: end the network in a torch.nn.Linear"
            )
        self.bias = network.head.bias is not None
        size = known.domains, known.classes, known.features + self.bias
        self.register_buffer("averages", torch.zeros(size))

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        scores = self.network.head(z)
        fitted = mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)
        annealed = self.annealed(batch.progress)
        with torch.set_grad_enabled(annealed):
            each = [self.renewed(batch, rows, z, scores) for rows in batch.domains() if len(rows) > 1]
        if not annealed or not each:
            return fitted
        return fitted + self.trade_off * fishr(torch.stack(each))

    def renewed(self, batch: Batch, rows: Tensor, z: Tensor, scores: Tensor) -> Tensor:
        """The average of one domain, with its gradient, after it has taken the batch's rows in."""
        kept = self.get_buffer("averages")[int(batch.domain[rows[0]])]
        variance = gradient_variance(z[rows], scores[rows], batch.y[rows], self.bias)
        new = self.gamma * kept.clone() + (1 - self.gamma) * variance
        kept.copy_(new.detach())
        return new / (1 - self.gamma)
