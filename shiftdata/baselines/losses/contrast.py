"""Contrastive losses: of two views of a row, without labels, and of rows that a first model confuses."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from shiftdata.baselines.losses.reduce import State, cross_entropies, exactly, precise
from shiftdata.errors import InputError

__all__ = ["KeyQueue", "cnc", "info_nce", "ntxent"]


def ntxent(z: Tensor, z_other: Tensor, temperature: float = 0.5) -> Tensor:
    """Return the normalised temperature-scaled cross-entropy of SimCLR (Chen et al., ICML 2020).

        (1 / 2B) sum_i -log(exp(s_ij / t) / sum_{k != i} exp(s_ik / t))     s the cosine

    i and k run over the rows of both views, and j is the other view of i.
    """
    _check_views(z, z_other, temperature)
    with exactly(z):
        both = normalize(precise(torch.cat([z, z_other])), dim=1)
        logits = (both @ both.T / temperature).fill_diagonal_(-torch.inf)
        other = torch.arange(len(both), device=z.device).roll(len(z))
        return cross_entropies(logits, other).mean()


def info_nce(query: Tensor, key: Tensor, queue: Tensor, temperature: float = 0.2) -> Tensor:
    """Return the loss of a dictionary of keys, MoCo's (He et al., CVPR 2020).

        (1 / B) sum_i -log(exp(s(q_i, k_i) / t) / (exp(s(q_i, k_i) / t) + sum_n exp(s(q_i, n) / t)))

    s is the cosine, n runs over the rows of `queue`. Keys and queue get no gradient.
    """
    _check_views(query, key, temperature)
    with exactly(query):
        query, key, queue = (normalize(precise(x), dim=1) for x in (query, key.detach(), queue.detach()))
        positive = (query * key).sum(1, keepdim=True)
        logits = torch.cat([positive, query @ queue.T], 1) / temperature
        return cross_entropies(logits, torch.zeros(len(query), dtype=torch.int64, device=query.device)).mean()


def cnc(
    z: Tensor, y: Tensor, predicted: Tensor, temperature: float = 0.1, *, opposed: bool = False
) -> Tensor:
    """Return the loss of Correct-N-Contrast (Zhang et al., ICML 2022) of the rows of a batch.

        mean over i of (1 / |P_i|) sum_{p in P_i} -log(exp(s_ip / t) / sum_{k in P_i + N_i} exp(s_ik / t))

    s is the cosine. `predicted` are the classes by a first model. The positives P_i have the class of row i
    and another prediction, the negatives N_i another class and its prediction: what the first model relies on
    no longer tells rows apart. Rows that lack either are left out. `opposed`, the variant `code` (the
    authors), pairs rows that were right with rows that were wrong alone, and adds the means over both.
    """
    lengths = [z.ndim == 2, y.shape == predicted.shape == z.shape[:1], temperature > 0]
    if not all(lengths):
        raise InputError(
            f"features {tuple(z.shape)}, classes {tuple(y.shape)}, predictions {tuple(predicted.shape)}, "
            f"temperature {temperature:g}: give rows x features, two numbers a row, a temperature above 0"
        )
    same_class, same_prediction = y[:, None] == y, predicted[:, None] == predicted
    positive, negative = same_class & ~same_prediction, ~same_class & same_prediction
    right = y == predicted
    if opposed:
        across = right[:, None] != right
        positive, negative = positive & across, negative & across
    anchor = positive.any(1) & negative.any(1)
    if not anchor.any():
        return precise(z).sum() * 0
    with exactly(z):
        unit = normalize(precise(z), dim=1)
        logits = unit[anchor] @ unit.T / temperature
        positive, negative = positive[anchor], negative[anchor]
        total = logits.masked_fill(~(positive | negative), -torch.inf).logsumexp(1)
        each = total - (logits * positive).sum(1) / positive.sum(1)
    if not opposed:
        return each.mean()
    sides = (each[right[anchor]], each[~right[anchor]])
    return torch.stack([side.mean() for side in sides if len(side)]).sum()


def _check_views(z: Tensor, z_other: Tensor, temperature: float) -> None:
    if z.ndim != 2 or z.shape != z_other.shape or temperature <= 0:
        raise InputError(
            f"views of the shapes {tuple(z.shape)} and {tuple(z_other.shape)}, temperature {temperature:g}: "
            "give two of rows x features, row for row, and a temperature above 0"
        )


class KeyQueue(State):
    """The last keys, from random ones on: the negatives of `info_nce`."""

    def __init__(self, size: int, features: int) -> None:
        super().__init__(keys=normalize(torch.randn(size, features), dim=1))

    def update(self, keys: Tensor) -> None:
        """Add a batch of keys, and forget the oldest."""
        added = normalize(precise(keys.detach()), dim=1).to(self.keys)
        self.keys.copy_(torch.cat([self.keys, added])[-len(self.keys) :])
