"""Losses of unlabelled target rows: entropies, pseudo-labels, discrepancies of heads, whitened features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, one_hot

from shiftdata.baselines.losses.reduce import State, cross_entropies
from shiftdata.data.arrays import one_of

__all__ = ["RecentShares", "entropy", "fixmatch", "mcd", "pseudo_label", "sentry", "sentry_balance"]
__all__ += ["tent", "whitening"]


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy H(p) of each row's prediction p = softmax(logits)."""
    logs = log_softmax(logits, 1)
    return -(logs.exp() * logs).sum(1)


def tent(logits: Tensor) -> Tensor:
    """Return the mean entropy, minimised by batch norm's scale and shift in TENT (Wang et al., ICLR 2021)."""
    return entropy(logits).mean()


def fixmatch(
    logits_weak: Tensor,
    logits_strong: Tensor,
    tau: float = 0.95,
    variant: str = "fixed",
) -> Tensor:
    """Return (1 / B) sum over rows with max p_w >= tau of CE(f_s, k_w) (Sohn et al., NeurIPS 2020).

    p_w are the probabilities of a row's weak view and k_w its class, without a gradient; f_s are the logits
    of a strong view. Where no row is confident it is 0, not NaN. `paper` (RLSbench's formula; not its code)
    asks the strong view for confidence.
    """
    one_of("variant", variant, ("fixed", "paper"))
    label = logits_weak.detach().argmax(1)
    confident = (logits_strong if variant == "paper" else logits_weak).detach().softmax(1).amax(1) >= tau
    return torch.where(confident, cross_entropies(logits_strong, label), 0).mean()


def pseudo_label(logits: Tensor, tau: float = 0.95) -> Tensor:
    """Return (1 / B) sum over rows with max p >= tau of CE(f, argmax f) (Lee, 2013): FixMatch of one view."""
    return fixmatch(logits, logits, tau)


def mcd(logits: Tensor, logits_other: Tensor) -> Tensor:
    """Return mean |p1 - p2| of two heads; they raise it, the encoder lowers it (Saito et al., CVPR 2018)."""
    return (logits.softmax(1) - logits_other.softmax(1)).abs().mean()


def sentry(logits_weak: Tensor, logits_strong: Sequence[Tensor], variant: str = "fixed") -> Tensor:
    """Return (1 / B) (sum over rows that agree of H_i - sum over the rest of H_i) (Prabhu et al., ICCV 2021).

    A row agrees if most of its strong views are of the weak view's class, and H_i is the mean entropy of the
    majority's views. `code` (RLSbench and the authors): that of its last view alone.
    """
    one_of("variant", variant, ("fixed", "code"))
    label = logits_weak.detach().argmax(1)
    agrees = torch.stack([view.detach().argmax(1) == label for view in logits_strong])
    most = agrees.sum(0) * 2 > len(agrees)
    chosen = agrees == most  # the majority's views: those that agree where most do, else the others
    if variant == "code":
        # Places count from 1, so that product and maximum pick the last chosen view.
        places = torch.arange(1, len(agrees) + 1, device=label.device)[:, None]
        chosen = places == (chosen * places).amax(0)
    entropies = torch.stack([entropy(view) for view in logits_strong])
    mean_entropy = (entropies * chosen).sum(0) / chosen.sum(0)
    return torch.where(most, mean_entropy, -mean_entropy).mean()


def sentry_balance(logits: Tensor, shares: Tensor) -> Tensor:
    """Return mean sum_k p_k log q_k, q the shares of recent predictions (Prabhu et al., ICCV 2021).

    To lower it is to move predictions to classes that were rare among the recent ones.
    """
    logs = log_softmax(logits, 1)
    return (logs.exp() * (shares + 1e-12).log()).sum(1).mean()


class RecentShares(State):
    """The shares q of the last predicted classes, with one more of each, for `sentry_balance`."""

    def __init__(self, classes: int, size: int = 256) -> None:
        super().__init__(queue=torch.full((size,), -1))
        self.classes = classes

    def update(self, logits: Tensor) -> Tensor:
        """Add a batch's predictions, forget the oldest, and return q."""
        self.queue.copy_(torch.cat([self.queue, logits.detach().argmax(1)])[-len(self.queue) :])
        counts = 1 + one_hot(self.queue + 1, self.classes + 1).sum(0)[1:]  # -1: not filled yet
        return counts / counts.sum()


def whitening(z: Tensor, centred: bool = True, shrinkage: float = 0.01) -> tuple[Tensor, Tensor]:
    """Return the mean mu and S^-1/2 with which (z - mu) S^-1/2 is white (DARE: Rosenfeld et al., 2022).

    S = (1 - shrinkage) C + shrinkage tr(C) / d I, C the covariance. RLSbench's code ("CORAL") has
    `centred=False`: mu = 0, and C is the second moment.
    """
    mu = z.mean(0) if centred else torch.zeros_like(z[0])
    moment = (z - mu).T @ (z - mu) / len(z)
    level = moment.diagonal().mean()  # the mean eigenvalue
    # S has the eigenvectors of C; the ridge is added to eigenvalues, of which rounding leaves some below 0.
    values, vectors = torch.linalg.eigh((1 - shrinkage) * moment)
    values = values.clamp(min=0) + shrinkage * level
    values = torch.where(values > 0, values, 1)  # all rows are equal: nothing is scaled
    return mu, vectors @ torch.diag(values.rsqrt()) @ vectors.T
