"""Pseudo-labels: the network's own confident predictions as labels of the target (Lee 2013; RLSbench).

    l_s + lam_t (1 / B) sum over rows with max p >= tau of CE(f, argmax f)        lam_t = min(1, t / (ramp T))

The sum is divided by all B target rows, so that a batch in which nothing is confident adds 0; where nothing
ever is (tau above 1), it is ERM. By default source and target take a forward pass each; joint=1 makes it one,
with shared statistics of batch norm, as WILDS and RLSbench do.

RLSbench's code multiplies the mean over the confident rows by their share: with none, that is NaN times 0.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftdata.baselines.method import Batch, Hyper, Method, mean
from shiftdata.baselines.methods.dann import both_features


def pseudo_label_losses(scores: Tensor, tau: float) -> Tensor:
    """The loss of each row with its own prediction as the label, 0 for rows that are not confident."""
    confidence, label = scores.detach().softmax(1).max(1)
    confident = confidence >= tau
    losses = scores.new_zeros(len(scores), dtype=torch.float32)
    return losses.masked_scatter(
        confident, cross_entropy(scores[confident].float(), label[confident], reduction="none")
    )


class PseudoLabel(Method):
    """ERM, and the same on target rows that it is confident of, with its own prediction as the label."""

    needs = frozenset({"target"})
    tau = Hyper(0.9, low=0.7, high=0.95, source="RLSbench; range: unlabelled WILDS")
    trade_off = Hyper(1.0, low=0.1, high=10.0, log=True, source="RLSbench; range: unlabelled WILDS")
    ramp = Hyper(0.4, low=0.0, high=1.0, source="RLSbench: 40 % of the steps")
    joint = Hyper(0, choices=(0, 1), source="0: the limit is ERM; RLSbench: 1")

    def loss(self, batch: Batch) -> Tensor:
        z, z_target = both_features(self, batch, bool(self.joint))
        fitted = mean(cross_entropy(self.network.head(z), batch.y, reduction="none"), batch.weight)
        risen = min(1.0, batch.progress / self.ramp) if self.ramp else 1.0
        return (
            fitted
            + self.trade_off * risen * pseudo_label_losses(self.network.head(z_target), self.tau).mean()
        )
