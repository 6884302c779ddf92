"""EoA: the running mean of the weights, and the sum of several runs' logits (Arpit et al., NeurIPS 2022).

The mean is validated and predicted with, never trained on. An `ensemble` sums the logits of several such runs,
each the checkpoint that validation prefers: say three sets of hyper-parameters, two seeds each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from shiftdata.baselines.method import Hyper, Setup
from shiftdata.baselines.methods.averages import Averaged
from shiftdata.baselines.methods.batch_norm import batch_norms
from shiftdata.baselines.models import Floats
from shiftdata.errors import InputError
from shiftdata.losses import WeightAverage
from shiftdata.metrics.arrays import IntArray

if TYPE_CHECKING:
    from shiftdata.baselines.run import Model, Run


class EoA(Averaged):
    """Any method, validated and used with `losses.WeightAverage` of its weights and batch norm's statistics.

    `code` (the port to DomainBed-v2) averages parameters alone. (Its mean shares memory with the weights before
    it begins, and it keeps the statistics that the network came with. Not here: they are the last ones.)
    """

    variants: ClassVar[tuple[str, ...]] = ("fixed", "code")
    start = Hyper(100, low=1, high=1000, log=True, source="Arpit et al.: 100 of 5,000 steps")

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.average = WeightAverage(self.averaged(), int(self.start))

    def averaged(self) -> list[Tensor]:
        tensors = super().averaged()
        if self.own_variant == "fixed":
            for layer in batch_norms(self.network):
                tensors += [each for each in (layer.running_mean, layer.running_var) if each is not None]
        return tensors

    def predict(self, x: Tensor) -> Tensor:
        with self.average.applied(self.averaged()):
            return super().predict(x)

    def predict_source(self, x: Tensor) -> Tensor:
        with self.average.applied(self.averaged()):
            return super().predict_source(x)


def _sum(scores: Iterable[Floats]) -> Floats:
    total: Floats = np.sum(list(scores), axis=0, dtype=np.float32)
    return total


@dataclass(frozen=True, eq=False)
class Sum:
    """Several models whose logits are added up."""

    models: Sequence[Model]

    def scores(self, rows: IntArray) -> Floats:
        """Return the sum of the models' logits of rows of the base."""
        return _sum(model.scores(rows) for model in self.models)

    def source_scores(self, rows: IntArray) -> Floats:
        """Return the sum of the models' logits of rows of the source."""
        return _sum(model.scorer.source_scores(rows) for model in self.models)


def ensemble(runs: Sequence[Run]) -> Run:
    """Make a run of several over the same rows: it predicts by the sum of their logits."""
    if not runs:
        raise InputError("an ensemble of no run: give at least one")
    first = runs[0]
    for run in runs:
        labels = np.array_equal(run.model.outputs, first.model.outputs)
        if not (labels and np.array_equal(run.rows, first.rows)):
            raise InputError("the runs of an ensemble predict the same rows, and the same labels")
    return replace(
        first,
        about={"method": "ensemble", "runs": [dict(run.about) for run in runs]},
        scores=_sum(run.scores for run in runs),
        history=[],
        model=replace(first.model, scorer=Sum([run.model for run in runs])),
    )
