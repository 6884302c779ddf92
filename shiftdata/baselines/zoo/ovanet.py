"""OVANet: a second head that says of each class whether a row is of it (Saito and Saenko, ICCV 2021).

    l_s + (l_pos + l_neg) / 2 + entropy H_t
    l_pos = -log p_y         l_neg = max_{k != y} -log(1 - p_k)         p_k: one softmax of two a class
    H_t = mean over target rows and classes of the entropy of (p_k, 1 - p_k)

A row is unknown if its likeliest class by the first head, k, has p_k < 1/2. The second head has no bias, and
its rows have length 1 after each step: it measures an angle.

`code` (SMA): weight 1 for H_t, and rows of any length.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, normalize

from shiftdata.baselines.method import Batch, Hyper, Method, Setup, mean


def open_losses(logs: Tensor, y: Tensor) -> Tensor:
    """Each row's loss by the second head; `logs` are log(1 - p_k) and log p_k, rows x 2 x classes."""
    rows = torch.arange(len(y), device=y.device)
    positive = -logs[rows, 1, y]
    others = (-logs[:, 0]).masked_fill(nn.functional.one_hot(y, logs.shape[2]).bool(), -torch.inf)
    return (positive + others.max(dim=1).values) / 2


def open_entropy(logs: Tensor) -> Tensor:
    """The mean entropy of each row's answers by the second head."""
    return -(logs.exp() * logs).sum(dim=1).mean(dim=1)


def with_unknown(scores: Tensor, is_unknown: Tensor) -> Tensor:
    """One score more a row, for unknown: above all others where it is, else below them."""
    ends = torch.where(is_unknown, scores.max(dim=1).values + 1, scores.min(dim=1).values - 1)
    return torch.cat([scores, ends[:, None]], dim=1)


class OVANet(Method):
    """One-versus-all networks: each class has a boundary of its own, beyond which rows are unknown."""

    needs = frozenset({"target", "unknown"})
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    entropy = Hyper(0.1, low=0.01, high=1.0, log=True, source="OVANet: .1; SMA: 1", variants={"code": 1.0})

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.open = nn.Linear(known.features, 2 * known.classes, bias=False)

    def _logs(self, z: Tensor) -> Tensor:
        return log_softmax(self.open(z).view(len(z), 2, -1), dim=1)

    def loss(self, batch: Batch) -> Tensor:
        z = self.network.features(batch.x)
        fitted = cross_entropy(self.network.head(z), batch.y, reduction="none")
        entropy = open_entropy(self._logs(self.network.features(batch.unlabelled))).mean()
        return mean(fitted + open_losses(self._logs(z), batch.y), batch.weight) + self.entropy * entropy

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        if self.variant == "fixed":
            self.open.weight.copy_(normalize(self.open.weight, dim=1))

    def predict(self, x: Tensor) -> Tensor:
        """The first head's scores, and one of unknown."""
        z = self.network.features(x)
        scores: Tensor = self.network.head(z)
        chosen = scores.argmax(dim=1)
        logs = self._logs(z)
        rows = torch.arange(len(z), device=z.device)
        is_unknown = logs[rows, 0, chosen] > logs[rows, 1, chosen]
        return with_unknown(scores, is_unknown)
