"""Compare losses of `shiftdata.baselines` with those of pytorch-adapt and skada, on random rows.

They pin other versions of libraries, so they lie in a folder of their own, without their requirements:

    pip install --no-deps --target PEERS pytorch-adapt==0.0.83 pytorch-metric-learning==2.9.0 \
        torchmetrics==1.9.0 lightning-utilities==0.15.3 skada==0.6.0 skorch==1.4.0 tabulate==0.10.0 \
        POT==0.9.7.post1
    PYTHONPATH=PEERS python scripts/compare_losses.py

skada imports pandas and scikit-learn too. A line is the largest relative difference of value or gradients.

MMD of pytorch-adapt leaves out rows beside themselves and takes the mean kernel, not the sum; so does ours
here. Sets are small: from 26 rows on, its distances carry the rounding of a matrix product. That of skada is
not compared: its Gaussian kernel reads |x - y|, not the square, so that it is a Laplacian one. DeepJDOT is
the variant `paper`, of equally many rows: skada's takes no others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from shiftdata.baselines.methods.coral import coral
from shiftdata.baselines.zoo.deepjdot import coupling, distances, label_losses
from shiftdata.baselines.zoo.mcd import discrepancy
from shiftdata.baselines.zoo.mmd import GAMMAS, kernels, mmd
from shiftdata.baselines.zoo.uniot import TRANSPORT

LARGEST = 1e-4
Loss = Callable[[Tensor, Tensor], Tensor]


def without_diagonal(x: Tensor, y: Tensor) -> Tensor:
    """MMD as pytorch-adapt has it, from ours: the mean kernel, no row beside itself."""
    made = mmd([x, y]) / len(GAMMAS)
    for one in (x, y):
        kernel = kernels(one) / len(GAMMAS)
        others = (kernel.sum() - len(one)) / (len(one) * (len(one) - 1))
        made = made - kernel.mean() + others
    return made


def transport(x: Tensor, y: Tensor) -> Tensor:
    """DeepJDOT: the first numbers of `x` say a row's class, those of `y` are scores."""
    cost = 0.1 * distances(x, y) + label_losses(x[:, :3].argmax(1), y[:, :3])
    return (torch.from_numpy(coupling(cost.detach().double().numpy())).to(cost) * cost).sum()


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


def peers() -> Iterator[tuple[str, Loss, Loss]]:
    """The name of a loss, ours, theirs."""
    from pytorch_adapt.layers import CORALLoss, MCDLoss, MMDLoss
    from skada.deep.losses import deepcoral_loss, deepjdot_loss

    adapt = MMDLoss(kernel_scales=torch.tensor(GAMMAS), mmd_type="quadratic", bandwidth=1.0)
    yield "CORAL, pytorch-adapt", lambda x, y: coral([x, y], means=False), CORALLoss()
    yield "CORAL, skada", lambda x, y: coral([x, y], means=False), deepcoral_loss
    yield "MMD, pytorch-adapt", without_diagonal, adapt
    jdot: Loss = lambda x, y: deepjdot_loss(x[:, :3].argmax(1), y[:, :3], x, y, 0.1, 1.0)  # noqa: E731
    yield "DeepJDOT, skada", transport, jdot
    yield "MCD, pytorch-adapt", discrepancy, MCDLoss()
    yield "UniOT's transport, POT", unbalanced, unbalanced_pot


def main() -> int:
    worst, generator = 0.0, torch.Generator().manual_seed(0)
    for name, ours, theirs in peers():
        for rows, others, features in ((8, 8, 4), (20, 7, 16), (24, 24, 256)):
            others = rows if "JDOT" in name or "MCD" in name else others  # pairs of rows
            x = torch.randn(rows, features, generator=generator)
            y = 2 * torch.randn(others, features, generator=generator) + 0.5
            pair = [x.requires_grad_(), y.requires_grad_()]
            made = [loss(x, y) for loss in (ours, theirs)]
            both = [[one.detach(), *torch.autograd.grad(one, pair)] for one in made]
            apart = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*both, strict=True))
            print(f"{name:28}{rows:3} and {others:2} x {features:3} {apart:.1e}")
            worst = max(worst, apart)
    return int(worst > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
