"""SENTRY: entropy down where a committee of views agrees, up where it does not (Prabhu et al., ICCV 2021).

    source   ERM, on rows drawn so that each class comes equally often
    adapt    l_s + committee (1 / B) (sum over a of H_i - sum over d of H_i) + balance mean sum_k p_k log q_k

The committee are the classes of three strong views of a target row. In a most are the weak view's class, and
H_i is the mean entropy of those that are; in d most are not, and it is that of those that are not. p are the
probabilities of the weak views, q the shares of the last 256 predicted classes, with one more of each class,
so that none is 0. Target rows are drawn by predicted class, as RS draws them.

`code` (RLSbench, and the authors' for the committee): of the views that agree, or do not, only the last
counts; q is the mean probability of the last epoch, and there is no balance in the first; no source model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, one_hot

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Batch, Hyper, Method, Setup, Stage, mean
from shiftdata.baselines.methods.batch_norm import entropies
from shiftdata.baselines.methods.rs import pseudo_balanced
from shiftdata.metrics.arrays import IntArray
from shiftdata.sampling import RowSampler

VIEWS = 3
REMEMBERED = 256


def committee_losses(weak: Tensor, strong: Sequence[Tensor], last: bool = False) -> Tensor:
    """Each row's mean entropy over the views of the majority, above 0 if it agrees, below if not."""
    label = weak.detach().argmax(1)
    agrees = torch.stack([one.detach().argmax(1) == label for one in strong])
    most = agrees.sum(0) * 2 > len(strong)
    counts = agrees == most
    if last:
        places = torch.arange(1, len(strong) + 1, device=weak.device)[:, None]
        counts = places == (counts * places).max(0).values
    every = torch.stack([entropies(one.float()) for one in strong])
    chosen = (every * counts).sum(0) / counts.sum(0)
    return torch.where(most, chosen, -chosen)


class SENTRY(Method):
    """Selective entropy optimisation: trust target rows whose views agree, doubt the others."""

    needs = frozenset({"target", "pixels"})
    sampler = "rwy"
    target_strong_views = VIEWS
    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    committee = Hyper(1.0, low=0.1, high=10.0, log=True, source="Prabhu et al., RLSbench")
    balance = Hyper(0.1, low=0.01, high=1.0, log=True, source="Prabhu et al., RLSbench")
    first = Hyper(
        1.0, low=0.0, high=1.0, source="Prabhu et al. begin with a source model", variants={"code": 0}
    )

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("pseudo_labels", torch.zeros(known.target_rows, dtype=torch.int64))
        self.register_buffer("remembered", torch.full((REMEMBERED,), -1))
        # `code`: probabilities of this epoch of the target added up and the rows, and the mean of the last.
        self.register_buffer("sums", torch.zeros(known.classes + 1))
        self.register_buffer("shares", torch.zeros(known.classes))

    def stages(self) -> Sequence[Stage]:
        return [Stage("source", self.first), Stage("adapt")]

    def reads_target(self, stage: Stage) -> bool:
        return stage.name == "adapt"

    def target_rows(self, trainer: Trainer, shuffled: RowSampler, epoch: int, begins: bool) -> IntArray:
        sums = self.get_buffer("sums")
        if begins and sums[-1]:
            self.get_buffer("shares").copy_(sums[:-1] / sums[-1])
            sums.zero_()
        return pseudo_balanced(trainer, self.get_buffer("pseudo_labels"), epoch, begins)

    def loss(self, batch: Batch) -> Tensor:
        scores = self.network(batch.x)
        fitted = mean(cross_entropy(scores, batch.y, reduction="none"), batch.weight)
        if batch.stage == "source":
            return fitted
        code = self.variant == "code"
        weak = self.network(batch.unlabelled)
        strong = [self.network(one) for one in batch.target_strong]
        agreed = committee_losses(weak, strong, last=code).mean()
        logs = log_softmax(weak.float(), 1)
        return (
            fitted
            + self.committee * agreed
            + self.balance * (logs.exp() * self.log_shares(logs)).sum(1).mean()
        )

    def log_shares(self, logs: Tensor) -> Tensor:
        """The logarithms of q; also remembers the batch's predictions."""
        classes = logs.shape[1]
        if self.variant == "code":
            sums, shares = self.get_buffer("sums"), self.get_buffer("shares")
            sums += torch.cat([logs.detach().exp().sum(0), sums.new_tensor([len(logs)])])
            return (shares + 1e-12).log() if shares.any() else torch.zeros_like(shares)
        queue = self.get_buffer("remembered")
        queue.copy_(torch.cat([queue, logs.argmax(1)])[-len(queue) :])
        counts = 1 + one_hot(queue[queue >= 0], classes).sum(0)
        return (counts / counts.sum()).log()
