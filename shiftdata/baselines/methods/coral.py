"""CORAL: features with one mean and covariance in all domains (Sun and Saenko, ECCV workshops 2016).

    l + trade_off (mean (mu_i - mu_j)^2 + mean (C_i - C_j)^2)     over entries and pairs of domains i, j

mu and C (divided by n - 1) are those of a domain's features in the batch. This is the form of DomainBed,
Transfer-Learning-Library and WILDS. A domain of one row has a mean, but no covariance; with fewer than two
domains in the batch the step is ERM's. l is the mean over all rows: with the equal numbers of rows that the
sampler draws, the mean over domains.

`paper`: |C_i - C_j|_F^2 / (4 d^2), no means: a quarter of the second term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, mean
from shiftdata.baselines.methods.domains import AcrossDomains, exactly


def mean_gap(values: Sequence[Tensor]) -> Tensor:
    """The mean over pairs of the mean squared difference: twice the variance. 0 for fewer than two."""
    if len(values) < 2:
        return torch.zeros(())
    return 2 * torch.stack(list(values)).var(0).mean()


def covariance(z: Tensor) -> Tensor:
    """The covariance of the columns over two or more rows."""
    centred = z - z.mean(0)
    return centred.T @ centred / (len(z) - 1)


def covariance_gap(sets: Sequence[Tensor]) -> Tensor:
    """The mean over pairs of the mean squared difference of covariances; sets of one row have none.

    Of fewer rows than features from inner products of centred rows: <C_i, C_j> = |Z_i Z_j'|^2, and
    |C_i - C_j|^2 = <C_i, C_i> + <C_j, C_j> - 2 <C_i, C_j>.
    """
    sets = [one for one in sets if len(one) > 1]
    n, features = len(sets), sets[0].shape[1] if sets else 0
    if sum(map(len, sets)) >= features or n < 2:
        return mean_gap([covariance(one) for one in sets])
    fine = torch.float32 if sets[0].device.type == "mps" else torch.float64  # mps has no other
    rows = torch.cat([(one - one.mean(0)).to(fine) / (len(one) - 1) ** 0.5 for one in sets])
    of = torch.repeat_interleave(torch.arange(n), torch.tensor([len(one) for one in sets]))
    of = torch.nn.functional.one_hot(of, n).to(rows)
    inner = of.T @ (rows @ rows.T).square() @ of
    gap = 2 * (n * inner.trace() - inner.sum()) / (n * (n - 1) * features**2)
    return gap.float()


def coral(sets: Sequence[Tensor], means: bool = True) -> Tensor:
    """The penalty on the features of each domain, with the means' term or as the paper has it."""
    with exactly(sets[0]):
        sets = [one.float() for one in sets]
        spread = covariance_gap(sets)
        return mean_gap([one.mean(0) for one in sets]) + spread if means else spread / 4


class CORAL(AcrossDomains):
    """ERM, and a penalty on how far means and covariances of features differ between domains."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "paper")
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="DomainBed")

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        fitted = mean(cross_entropy(self.network.head(z), batch.y, reduction="none"), batch.weight)
        return fitted + self.trade_off * self.penalty([z[rows] for rows in batch.domains()])

    def penalty(self, sets: Sequence[Tensor]) -> Tensor:
        """What is added, from the features of each domain."""
        return coral(sets, means=self.variant == "fixed")
