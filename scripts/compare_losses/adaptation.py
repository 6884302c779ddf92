"""Losses of adaptation, open sets and label shift against other packages and plain loops.

DeepJDOT is the variant `paper`, of equally many rows: skada's takes no others.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from compare_losses.comparing import Comparison, two_sets
from shiftdata.baselines.zoo.deepjdot import coupling, distances, label_losses
from shiftdata.baselines.zoo.mcd import discrepancy
from shiftdata.baselines.zoo.uniot import TRANSPORT


def transport(x: Tensor, y: Tensor) -> Tensor:
    """DeepJDOT: the first numbers of `x` say a row's class, those of `y` are scores."""
    cost = 0.1 * distances(x, y) + label_losses(x[:, :3].argmax(1), y[:, :3])
    return (torch.from_numpy(coupling(cost.detach().double().numpy())).to(cost) * cost).sum()


def transport_skada(x: Tensor, y: Tensor) -> Tensor:
    from skada.deep.losses import deepjdot_loss

    loss: Tensor = deepjdot_loss(x[:, :3].argmax(1), y[:, :3], x, y, 0.1, 1.0)
    return loss


def discrepancy_adapt(x: Tensor, y: Tensor) -> Tensor:
    from pytorch_adapt.layers import MCDLoss

    loss: Tensor = MCDLoss()(x, y)
    return loss


def unbalanced(x: Tensor, y: Tensor) -> Tensor:
    """UniOT's: the similarity of what its transport couples, rows of `x` with rows of `y`."""
    alike = (normalize(x, dim=1) @ normalize(y, dim=1).T).double()
    mass = np.arange(1.0, len(y) + 1) / sum(range(1, len(y) + 1))
    s = alike.detach().numpy()
    return (torch.from_numpy(TRANSPORT.plan(s, TRANSPORT.columns(s, mass), len(s))) * alike).sum()


def unbalanced_pot(x: Tensor, y: Tensor) -> Tensor:
    """The same by POT."""
    import ot

    alike = (normalize(x, dim=1) @ normalize(y, dim=1).T).double()
    mass = np.arange(1.0, len(y) + 1) / sum(range(1, len(y) + 1))
    rows = np.full(len(x), 1 / len(x))
    plan = ot.unbalanced.sinkhorn_knopp_unbalanced(
        rows, mass, -alike.detach().numpy(), 0.01, 0.5, reg_type="entropy", stopThr=1e-12, numItermax=10000
    )
    return (torch.from_numpy(plan) * alike).sum()


COMPARISONS = (
    Comparison("DeepJDOT, skada", transport, transport_skada, two_sets(20, 20, 16), ("skada",)),
    Comparison(
        "MCD, pytorch-adapt", discrepancy, discrepancy_adapt, two_sets(20, 20, 16), ("pytorch_adapt",)
    ),
    Comparison("UniOT's transport, POT", unbalanced, unbalanced_pot, two_sets(20, 7, 16), ("ot",)),
)
