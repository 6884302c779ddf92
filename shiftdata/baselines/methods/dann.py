"""DANN: features in which a discriminator cannot see the domain (Ganin et al., JMLR 2016).

    l_s + trade_off (BCE_s + BCE_t) / 2        BCE of D(GRL_c(z)): source 1, target 0
    c = 2 / (1 + exp(-slope t / T)) - 1        t of T steps are done

GRL_c, the reversal, is the identity whose gradient g comes back as -c g: the discriminator D learns to see
the domain, the encoder to hide it. By default source and target share a forward pass, hence the statistics of
batch norm, as in Transfer-Learning-Library and RLSbench; joint=0 makes two passes, as SMA does.

`code` (SMA, from AdaTime): a misplaced bracket makes c = 1 from the first step, without a warm-up,
and the two terms are added, not averaged.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, check_1d, mean


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, coefficient: float) -> Tensor:
        ctx.coefficient = coefficient
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        return -ctx.coefficient * gradients[0], None


def reversed_gradient(x: Tensor, coefficient: float) -> Tensor:
    """The same numbers, whose gradient comes back times -coefficient."""
    reversal: Tensor = _Reversal.apply(x, coefficient)  # type: ignore[no-untyped-call]
    return reversal


def warm_up(progress: float, slope: float = 10.0) -> float:
    """The reversal's coefficient: from 0 at the first step towards 1."""
    return 2 / (1 + math.exp(-slope * progress)) - 1


def domain_losses(scores: Tensor, of_source: bool) -> Tensor:
    """The discriminator's loss on each row, for rows that are all of the source or all of the target."""
    check_1d(scores=scores)
    aim = torch.full_like(scores, float(of_source))
    return binary_cross_entropy_with_logits(scores, aim, reduction="none")


def discriminator(size: int, width: int, dropout: float) -> nn.Sequential:
    """Two hidden layers and one score a row."""
    layers: list[nn.Module] = []
    for before in (size, width):
        layers += [nn.Linear(before, width), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))


def both_features(method: Method, batch: Batch, joint: bool) -> tuple[Tensor, Tensor]:
    """The features of source and target: of one forward pass, or of two."""
    if not joint:
        return method.network.features(batch.x), method.network.features(batch.unlabelled)
    both = method.network.features(torch.cat([batch.x, batch.unlabelled]))
    return both[: len(batch.x)], both[len(batch.x) :]


class Adversarial(Method):
    """What DANN and its kin share; they differ in what the discriminator reads and how rows weigh."""

    needs = frozenset({"target"})
    trade_off = Hyper(1.0, low=0.01, high=100.0, log=True, source="Transfer-Learning-Library; DomainBed")
    slope = Hyper(10.0, source="Ganin et al.: total steps as T")
    width = Hyper(256, low=64, high=1024, log=True, source="DomainBed; RLSbench: 1024")
    dropout = Hyper(0.5, choices=(0.0, 0.1, 0.5), source="RLSbench; DomainBed's choices")
    joint = Hyper(1, choices=(0, 1), source="Transfer-Learning-Library, RLSbench: 1; SMA: 0")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.discriminator = discriminator(self.read_size(), int(self.width), self.dropout)

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = both_features(self, batch, bool(self.joint))
        scores, scores_target = self.network.head(z), self.network.head(z_target)
        importance = self.importance(batch, scores, scores_target)
        losses = cross_entropy(scores, batch.y, reduction="none")
        fitted = mean(self.fit_importance(importance) * losses, batch.weight)
        certain, certain_target = self.certainty(scores, scores_target)
        read = torch.cat([self.read(z, scores), self.read(z_target, scores_target)])
        judged = self.discriminator(reversed_gradient(read, self.coefficient(batch.progress)))
        of_source = importance * certain * domain_losses(judged[: len(z)], True)
        of_target = certain_target * domain_losses(judged[len(z) :], False)
        domain = mean(of_source, batch.weight) + of_target.mean()
        return fitted + self.trade_off * (domain if self._as_sma() else domain / 2)

    def read_size(self) -> int:
        """How many numbers the discriminator reads."""
        return self.known.features

    def read(self, z: Tensor, scores: Tensor) -> Tensor:
        """What the discriminator reads of each row."""
        return z

    def certainty(self, scores: Tensor, scores_target: Tensor) -> tuple[Tensor, Tensor]:
        """How much each row of source and target weighs in the discriminator's loss, 1 on average."""
        return torch.ones_like(scores[:, 0]), torch.ones_like(scores_target[:, 0])

    def importance(self, batch: Batch, scores: Tensor, scores_target: Tensor) -> Tensor:
        """How much each source row weighs."""
        return torch.ones_like(batch.weight)

    def fit_importance(self, importance: Tensor) -> Tensor:
        """How much each source row weighs in l_s."""
        return importance

    def coefficient(self, progress: float) -> float:
        return 1.0 if self._as_sma() else warm_up(progress, self.slope)

    def _as_sma(self) -> bool:
        return self.variant == "code"


class DANN(Adversarial):
    """Domain-adversarial training: the features hide from a discriminator which domain a row is of."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
