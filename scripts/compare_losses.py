"""Compare losses of `shiftdata.baselines` with those of pytorch-adapt and skada, on random rows.

They pin other versions of libraries, so they lie in a folder of their own, without their requirements:

    pip install --no-deps --target PEERS pytorch-adapt==0.0.83 pytorch-metric-learning==2.9.0 \
        skada==0.6.0 skorch==1.4.0 tabulate==0.10.0
    PYTHONPATH=PEERS python scripts/compare_losses.py

Also needed is what skada imports: POT, pandas, scikit-learn. A line is the largest relative difference.

MMD of pytorch-adapt leaves out rows beside themselves and takes the mean kernel, not the sum; so does ours
here. Sets are small: from 26 rows on, its distances carry the rounding of a matrix product. That of skada is
not compared: its Gaussian kernel reads |x - y|, not the square, so that it is a Laplacian one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from shiftdata.baselines.methods.coral import coral
from shiftdata.baselines.methods.mmd import GAMMAS, kernels, mmd

LARGEST = 1e-4
Loss = Callable[[Tensor, Tensor], Tensor]


def pairs() -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of two domains, of several sizes."""
    generator = torch.Generator().manual_seed(0)
    for rows, others, features in ((8, 8, 4), (20, 7, 16), (24, 24, 256)):
        x = torch.randn(rows, features, generator=generator)
        yield x, 2 * torch.randn(others, features, generator=generator) + 0.5


def without_diagonal(x: Tensor, y: Tensor) -> Tensor:
    """MMD as pytorch-adapt has it, from ours: the mean kernel, no row beside itself."""
    made = mmd([x, y]) / len(GAMMAS)
    for one in (x, y):
        kernel = kernels(one) / len(GAMMAS)
        others = (kernel.sum() - len(one)) / (len(one) * (len(one) - 1))
        made = made - kernel.mean() + others
    return made


def peers() -> Iterator[tuple[str, Loss, Loss]]:
    """The name of a loss, ours, theirs."""
    from pytorch_adapt.layers import CORALLoss, MMDLoss
    from skada.deep.losses import deepcoral_loss

    def paper(x: Tensor, y: Tensor) -> Tensor:
        return coral([x, y], means=False)

    adapt = MMDLoss(kernel_scales=torch.tensor(GAMMAS), mmd_type="quadratic", bandwidth=1.0)
    yield "CORAL, pytorch-adapt", paper, CORALLoss()
    yield "CORAL, skada", paper, deepcoral_loss
    yield "MMD, pytorch-adapt", without_diagonal, adapt


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def main() -> int:  # values and gradients
    differences: list[float] = []
    for name, ours, theirs in peers():
        for x, y in pairs():
            x.requires_grad_()
            made = [one(x, y) for one in (ours, theirs)]
            moved = [torch.autograd.grad(one, x)[0] for one in made]
            differences += [difference(*[one.detach() for one in made]), difference(*moved)]
            print(f"{name:28}{max(differences[-2:]):.1e}")
    return int(max(differences) > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
