"""Contrastive losses against plain loops, pytorch-metric-learning and the authors' code.

For Correct-N-Contrast, PEERS has contrastive_network.py of HazyResearch/correct-n-contrast; what it imports
for its networks is not needed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import MagicMock, patch

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


# Correct-N-Contrast.

POSITIVES, NEGATIVES, CLASSES = 4, 5, 3


def one_anchor(z: Tensor) -> Tensor:
    """Give the loss an anchor, its positives and its negatives: no other row has both."""
    y = torch.tensor([0] * (1 + POSITIVES) + [1] * NEGATIVES)
    return losses.cnc(z, y, torch.tensor([0] + [1] * POSITIVES + [0] * NEGATIVES), T)


def one_anchor_released(z: Tensor) -> Tensor:
    unused = ("torchvision", "torchvision.models", "transformers", "utils", "network", "resnet")
    with patch.dict(sys.modules, {name: MagicMock() for name in unused}):
        peer = import_module("contrastive_network").SupervisedContrastiveLoss
    settings = SimpleNamespace(
        temperature=T, num_positive=POSITIVES, num_negative=NEGATIVES, arch="cnn", hard_negative_factor=0,
        device="cpu",
    )  # fmt: skip
    loss: Tensor = peer(settings)(lambda features: features, z)
    return loss


def confused(generator: torch.Generator) -> Sequence[Tensor]:
    """Draw features, classes, and predictions of which half are wrong."""
    y, guesses = torch.randint(CLASSES, (2, 18), generator=generator)
    predicted = torch.where(torch.rand(18, generator=generator) < 0.5, y, guesses)
    return torch.randn(18, 5, generator=generator, dtype=torch.float64), y, predicted


def cnc_loop(z: Tensor, y: Tensor, predicted: Tensor, opposed: bool = False) -> Tensor:
    sides: dict[bool, list[Tensor]] = {True: [], False: []}
    right, rows = (y == predicted).tolist(), range(len(z))
    for i in rows:
        others = [k for k in rows if right[k] != right[i]] if opposed else rows
        positives = [k for k in others if y[k] == y[i] and predicted[k] != predicted[i]]
        negatives = [k for k in others if y[k] != y[i] and predicted[k] == predicted[i]]
        if positives and negatives:
            total = sum(likeness(z[i], z[k]) for k in positives + negatives)
            terms = [-torch.log(likeness(z[i], z[p]) / total) for p in positives]
            sides[right[i]].append(torch.stack(terms).mean())
    if opposed:
        return torch.stack([torch.stack(side).mean() for side in sides.values() if side]).sum()
    return torch.stack(sides[True] + sides[False]).mean()


CNC, CNC_CODE = partial(losses.cnc, temperature=T), partial(losses.cnc, temperature=T, opposed=True)
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
    Comparison("Correct-N-Contrast, loop", CNC, cnc_loop, confused, tolerance=1e-6),
    Comparison("Correct-N-Contrast, both sides, loop", CNC_CODE, partial(cnc_loop, opposed=True), confused,
               tolerance=1e-6),
    Comparison("Correct-N-Contrast, authors", one_anchor, one_anchor_released,
               normal((1 + POSITIVES + NEGATIVES, 5)), ("contrastive_network",), tolerance=1e-6),
)  # fmt: skip
