"""EoA: the running mean of the weights, and the sum of several runs' scores (Arpit et al., NeurIPS 2022).

    mean of the weights after steps start - 1, start, ..., t    validated and predicted with, never trained on
    ensemble: the sum of the scores of several such runs, say three sets of hyper-parameters, two seeds each

Up to step start - 1 the weights themselves are the mean. Statistics of batch norm are averaged as well, as
the authors do. With `ensemble` each run should be the checkpoint that validation prefers.

`code` (the port to DomainBed-v2) averages parameters alone. (Its mean shares memory with the weights before
it begins, so that step `start` counts twice; and it keeps the statistics that the network came with, which is
right only where they are frozen. Not here: they are the last ones.)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Hyper, Setup
from shiftdata.baselines.methods.averages import Averaged
from shiftdata.baselines.methods.batch_norm import batch_norms
from shiftdata.baselines.models import Floats
from shiftdata.baselines.networks import flat, in_place, write
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray

if TYPE_CHECKING:
    from shiftdata.baselines.run import Model, Run


class EoA(Averaged):
    """Any method, validated and used with the running mean of its weights."""

    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    start = Hyper(100, low=1, high=1000, log=True, source="Arpit et al.: 100 of 5,000 steps")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("mean", torch.zeros_like(flat(self.averaged())))
        self.register_buffer("count", torch.tensor(0))

    def averaged(self) -> list[Tensor]:
        tensors = super().averaged()
        if self.own_variant == "fixed":
            for layer in batch_norms(self.network):
                tensors += [one for one in (layer.running_mean, layer.running_var) if one is not None]
        return tensors

    def add(self, weights: Tensor, step: int) -> None:
        if step < self.start - 1:
            return
        mean, count = self.get_buffer("mean"), self.get_buffer("count")
        count += 1
        mean += (weights - mean) / count

    def predict(self, x: Tensor) -> Tensor:
        with self._mean_in_place():
            return super().predict(x)

    def predict_source(self, x: Tensor) -> Tensor:
        with self._mean_in_place():
            return super().predict_source(x)

    def restart(self) -> None:
        self.get_buffer("mean").zero_()
        self.get_buffer("count").zero_()

    def place(self, trainer: Trainer) -> None:
        if self.get_buffer("count"):
            write(self.get_buffer("mean"), self.averaged())
            self.restart()

    def _mean_in_place(self) -> AbstractContextManager[None]:
        return (
            in_place(self.get_buffer("mean"), self.averaged()) if self.get_buffer("count") else nullcontext()
        )


@dataclass(frozen=True, eq=False)
class Sum:
    """Several models whose scores are added up."""

    models: Sequence[Model]

    def scores(self, rows: IntArray) -> Floats:
        """The sum of the models' scores of some rows of the base."""
        total: Floats = np.sum([one.scores(rows) for one in self.models], axis=0, dtype=np.float32)
        return total

    def source_scores(self, rows: IntArray) -> Floats:
        """The sum of the models' scores of some rows of the source."""
        total: Floats = np.sum(
            [one.scorer.source_scores(rows) for one in self.models], axis=0, dtype=np.float32
        )
        return total


def ensemble(runs: Sequence[Run]) -> Run:
    """One run of several over the same rows: it predicts by the sum of their scores."""
    if not runs:
        raise InputError("an ensemble of no run: give at least one")
    first = runs[0]
    for one in runs:
        labels = np.array_equal(one.model.outputs, first.model.outputs)
        if not (labels and np.array_equal(one.rows, first.rows)):
            raise InputError("the runs of an ensemble predict the same rows, and the same labels")
    return replace(
        first,
        about={"method": "ensemble", "runs": [dict(one.about) for one in runs]},
        scores=np.sum([one.scores for one in runs], axis=0, dtype=np.float32),
        history=[],
        model=replace(first.model, scorer=Sum([one.model for one in runs])),
    )
