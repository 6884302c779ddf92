"""Estimators of scikit-learn, or with its `fit` and `predict`: through the same door as networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.baselines.data import Data, epoch_rows
from shiftdata.baselines.inputs import Inputs
from shiftdata.baselines.method import Method
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.models import Floats, Standardised
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray


def is_estimator(backbone: Any) -> bool:
    """Whether it has scikit-learn's `fit` and `predict`."""
    return callable(getattr(backbone, "fit", None)) and callable(getattr(backbone, "predict", None))


@dataclass(frozen=True, eq=False)
class FittedEstimator:
    """An estimator that was fitted on standardised inputs."""

    estimator: Any
    inputs: Inputs
    prepare: Standardised
    classes: int

    def scores(self, rows: IntArray) -> Floats:
        """A score for each class: logarithms of probabilities where the estimator has them, else votes."""
        made = np.full((len(rows), self.classes), -np.inf, np.float32)
        if not len(rows):
            return made
        x = self.prepare(self.inputs.x[self.inputs.positions(rows)]).numpy()
        if hasattr(self.estimator, "predict_proba"):
            with np.errstate(divide="ignore"):
                made[:, self.estimator.classes_] = np.log(self.estimator.predict_proba(x))
            return made
        predicted = np.asarray(self.estimator.predict(x)).astype(np.int64)
        if predicted.shape != (len(rows),) or not ((predicted >= 0) & (predicted < self.classes)).all():
            raise InputError(f"{type(self.estimator).__name__} predicts other classes than it was given")
        made[np.arange(len(rows)), predicted] = 0
        return made

    def source_scores(self, rows: IntArray) -> Floats:
        """The same: an estimator adapts to no target."""
        return self.scores(rows)


def fit_estimator(estimator: Any, method: Method, data: Data) -> FittedEstimator:
    """Fit an estimator on the rows that a method's sampler draws in its first epoch."""
    kind = type(method)
    if (kind.loss, kind.stages, kind.finish) != (ERM.loss, ERM.stages, ERM.finish):
        raise InputError(
            f"{type(method).__name__} trains networks: with an estimator only the draw of rows can be "
            "chosen, by erm, rwy, rwg, suby or subg"
        )
    if data.inputs.is_pictures or data.inputs.x.ndim != 2:
        raise InputError("an estimator reads numbers: of pictures their frozen features")
    drawn = epoch_rows(data.sampler, 0)
    places = data.inputs.positions(data.rows[drawn])
    prepare = Standardised(data.inputs.x[places])
    estimator.fit(prepare(data.inputs.x[places]).numpy(), data.y[drawn])
    return FittedEstimator(estimator, data.inputs, prepare, data.classes)
