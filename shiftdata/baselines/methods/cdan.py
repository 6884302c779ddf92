"""CDAN: DANN whose discriminator reads features given the prediction (Long et al., NeurIPS 2018).

    D reads vec(sg(p) outer z), of K d numbers; above 4,096: (R_z z) * (R_p p) / sqrt(1024)

sg stops the gradient, R_z and R_p are fixed normal matrices. With entropy=1 (CDAN+E) a row weighs
1 + exp(-H(p)), without a gradient, 1 on average over source and target together, as in
Transfer-Learning-Library.

`code` (SMA, from AdaTime): the outer product with scores instead of p, not detached, so that the
discriminator's gradient also moves the head; c = 1 and a sum as in DANN's `code`. Its alternating steps on
flipped labels and its entropy of the target are left out.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from shiftdata.baselines.method import Hyper, Setup
from shiftdata.baselines.methods.dann import Adversarial

#: Above so many numbers the outer product is replaced by a random projection, of PROJECTED numbers.
LARGEST, PROJECTED = 4096, 1024


def outer(z: Tensor, p: Tensor) -> Tensor:
    """The outer product of each row's prediction and features, as one row: class after class."""
    return (p[:, :, None] * z[:, None, :]).flatten(1)


def projected(z: Tensor, p: Tensor, of_z: Tensor, of_p: Tensor) -> Tensor:
    """A random projection of the outer product: inner products are kept on average."""
    made: Tensor = (z @ of_z) * (p @ of_p) / of_z.shape[1] ** 0.5
    return made


def certainties(scores: Tensor) -> Tensor:
    """1 + exp(-entropy) of each row, divided by the mean; without a gradient."""
    logs = torch.log_softmax(scores.detach(), 1)
    weight = 1 + torch.exp((logs.exp() * logs).sum(1))
    return weight / weight.mean()


class CDAN(Adversarial):
    """Conditional domain-adversarial training: the discriminator sees the prediction too; also CDANN."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    entropy = Hyper(0, choices=(0, 1), source="Long et al.: CDAN, and 1 for CDAN+E")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        if self._is_projected:
            self.register_buffer("of_z", torch.randn(known.features, PROJECTED))
            self.register_buffer("of_p", torch.randn(known.classes, PROJECTED))

    @property
    def _is_projected(self) -> bool:
        return self.known.features * self.known.classes > LARGEST

    def read_size(self) -> int:
        return PROJECTED if self._is_projected else self.known.features * self.known.classes

    def read(self, z: Tensor, scores: Tensor) -> Tensor:
        given = scores if self._as_sma() else torch.softmax(scores, 1).detach()
        if self._is_projected:
            return projected(z, given, self.get_buffer("of_z"), self.get_buffer("of_p"))
        return outer(z, given)

    def certainty(self, scores: Tensor, scores_target: Tensor) -> tuple[Tensor, Tensor]:
        if not self.entropy:
            return super().certainty(scores, scores_target)
        weight = certainties(torch.cat([scores, scores_target]))
        return weight[: len(scores)], weight[len(scores) :]
