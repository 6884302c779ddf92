"""SWAD: the mean of the weights in a valley of the validation loss (Cha et al., NeurIPS 2021).

It needs `Training(evaluate_every=...)`. In a run's `history`, `select_loss` is of the weights as they are;
predictions are those of the mean that a training which ended at that step would leave.
"""

from __future__ import annotations

from shiftdata.baselines import losses
from shiftdata.baselines.method import Hyper, Method, Setup, Stage, TrainerAPI
from shiftdata.baselines.methods.averages import Averaged, renew_statistics
from shiftdata.baselines.networks import Network
from shiftdata.errors import InputError


class SWAD(Averaged):
    """Any method, its weights averaged by `losses.SWAD`."""

    code_version = 2  # 2: evaluations predict with the mean
    average: losses.SWAD
    converge = Hyper(3, low=1, high=10, source="Cha et al.: N_s")
    tolerance = Hyper(6, low=1, high=20, source="Cha et al.: N_e")
    ratio = Hyper(0.3, low=0.0, high=1.0, source="Cha et al.: r")

    def __init__(self, inner: Method, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(inner, variant=variant, **given)
        self.needs = inner.needs | {"select"}

    def setup(self, network: Network, sizes: Setup) -> None:
        super().setup(network, sizes)
        self.average = losses.SWAD(self.averaged(), int(self.converge), int(self.tolerance), self.ratio)

    def begin(self, stage: Stage, trainer: TrainerAPI) -> None:
        if not trainer.training.evaluate_every:
            raise InputError("swad looks at the loss on the rows to select by: set evaluate_every above 0")
        super().begin(stage, trainer)

    def evaluated(self, step: int, loss: float) -> None:
        super().evaluated(step, loss)
        if self.get_buffer("active"):
            self.average.evaluated(loss)

    def place(self, trainer: TrainerAPI) -> bool:
        placed = super().place(trainer)
        if placed:
            renew_statistics(trainer)
        return placed
