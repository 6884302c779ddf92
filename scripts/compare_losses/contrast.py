"""Losses of pretraining without labels against plain loops and pytorch-metric-learning."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import torch
from torch import Tensor

from scripts.compare_losses.adaptation import normal
from scripts.compare_losses.comparing import Comparison
from shiftdata.baselines import losses

VIEWS, QUEUE, T = (6, 5), (9, 5), 0.3
PEERS = ("pytorch_metric_learning",)


def likeness(x: Tensor, y: Tensor) -> Tensor:
    """Return exp(cosine / T) of two rows."""
    return torch.exp((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt() / T)


def ntxent_loop(z: Tensor, z_other: Tensor) -> Tensor:
    rows, total = [*z, *z_other], torch.zeros((), dtype=z.dtype)
    for i, row in enumerate(rows):
        own = likeness(row, rows[(i + len(z)) % len(rows)])
        total = total - torch.log(own / sum(likeness(row, other) for k, other in enumerate(rows) if k != i))
    return total / len(rows)


def info_nce_loop(query: Tensor, key: Tensor, queue: Tensor) -> Tensor:
    key, queue, total = key.detach(), queue.detach(), torch.zeros((), dtype=query.dtype)
    for q, k in zip(query, key, strict=True):
        own = likeness(q, k)
        total = total - torch.log(own / (own + sum(likeness(q, other) for other in queue)))
    return total / len(query)


def ntxent_peer(z: Tensor, z_other: Tensor) -> Tensor:
    peer = import_module("pytorch_metric_learning.losses").NTXentLoss(temperature=T)
    loss: Tensor = peer(torch.cat([z, z_other]), torch.arange(len(z)).repeat(2))
    return loss


def info_nce_peer(query: Tensor, key: Tensor, queue: Tensor) -> Tensor:
    """Give the peer a query at a time: it would take the keys of a batch's other rows as negatives."""
    peer, number = import_module("pytorch_metric_learning.losses").NTXentLoss(temperature=T), torch.arange
    each = [
        peer(
            q[None],
            number(1),
            ref_emb=torch.cat([k[None], queue]).detach(),
            ref_labels=number(len(queue) + 1),
        )
        for q, k in zip(query, key, strict=True)
    ]
    return torch.stack(each).mean()


NTXENT, INFO_NCE = partial(losses.ntxent, temperature=T), partial(losses.info_nce, temperature=T)
COMPARISONS = (
    Comparison("SimCLR's loss, loop", NTXENT, ntxent_loop, normal(VIEWS, VIEWS), tolerance=1e-6),
    Comparison("MoCo's loss, loop", INFO_NCE, info_nce_loop, normal(VIEWS, VIEWS, QUEUE), tolerance=1e-6),
    Comparison(
        "SimCLR's loss, metric-learning", NTXENT, ntxent_peer, normal(VIEWS, VIEWS), PEERS, tolerance=1e-6
    ),
    Comparison(
        "MoCo's loss, metric-learning", INFO_NCE, info_nce_peer, normal(VIEWS, VIEWS, QUEUE), PEERS,
        tolerance=1e-6,
    ),
)  # fmt: skip
