"""RS: source batches balanced by label, target batches by pseudo-label (RLSbench). Around any method."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftdata.baselines.method import Method, Setup, TrainerAPI, Wrapper
from shiftdata.baselines.networks import Network
from shiftdata.data.arrays import IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling import PseudoBalanced, RowSampler, cells_of


def pseudo_balanced(trainer: TrainerAPI, labels: Tensor, epoch: int, begins: bool) -> IntArray:
    """Draw rows of the target, each predicted class equally often; `labels` has the epoch's predictions."""
    if begins:
        assert trainer.data.target is not None
        labels.copy_(torch.from_numpy(trainer.scores(trainer.data.target).argmax(axis=1)))
    cells = cells_of(labels.cpu().numpy(), what="label", on_empty="drop")
    return PseudoBalanced(cells, seed=trainer.seed, names=("target", trainer.progress.stage)).rows_of(epoch)


class RS(Wrapper):
    """Any method on rows drawn so that each class comes equally often, predicted classes on the target."""

    def __init__(self, inner: Method, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(inner, variant=variant, **given)
        if inner.sampler not in ("shuffle", "rwy", "class-balanced"):
            raise InputError(
                f"rs draws rows by class, and {type(inner).__name__} by a rule of its own "
                f"({inner.sampler!r}): leave one of them out"
            )
        self.sampler = "rwy"

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        # What this epoch's draws rest on: a run that goes on within it must draw the same.
        self.register_buffer("pseudo_labels", torch.zeros(sizes.target_rows, dtype=torch.int64))

    def target_rows(self, trainer: TrainerAPI, shuffled: RowSampler, epoch: int, begins: bool) -> IntArray:
        return pseudo_balanced(trainer, self.get_buffer("pseudo_labels"), epoch, begins)
