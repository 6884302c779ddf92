"""Estimators of scikit-learn, or with its `fit` and `predict`: through the same door as networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.baselines.engine import epoch_rows
from shiftdata.baselines.method import Method
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.models import Floats, Standardised
from shiftdata.baselines.sets import Data
from shiftdata.baselines.sources import Source
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray


@dataclass(frozen=True, eq=False)
class FittedEstimator:
    """An estimator that was fitted on standardised inputs."""

    estimator: Any
    source: Source
    prepare: Standardised
    classes: int

    def scores(self, rows: IntArray, source: Source | None = None) -> Floats:
        """A score for each class: logarithms of probabilities where the estimator has them, else votes."""
        made = np.full((len(rows), self.classes), -np.inf, np.float32)
        if not len(rows):
            return made
        x = self.prepare((source or self.source).lines(rows)).numpy()
        if hasattr(self.estimator, "predict_proba"):
            with np.errstate(divide="ignore"):
                made[:, self.estimator.classes_] = np.log(self.estimator.predict_proba(x))
            return made
        predicted = np.asarray(self.estimator.predict(x)).astype(np.int64)
        if predicted.shape != (len(rows),) or not ((predicted >= 0) & (predicted < self.classes)).all():
            raise InputError(f"{type(self.estimator).__name__} predicts other classes than it was given")
        made[np.arange(len(rows)), predicted] = 0
        return made

    def source_scores(self, rows: IntArray, source: Source | None = None) -> Floats:
        """The same: an estimator adapts to no target."""
        return self.scores(rows, source)


def fit_estimator(estimator: Any, method: Method, data: Data) -> FittedEstimator:
    """Fit an estimator on the rows that a method's sampler draws in its first epoch."""
    kind = type(method)
    if (kind.loss, kind.stages, kind.finish) != (ERM.loss, ERM.stages, ERM.finish):
        raise InputError(
            f"{type(method).__name__} trains networks: with an estimator only the draw of rows can be "
            "chosen, by erm, rwy, rwg, suby or subg"
        )
    x = data.source.lines(data.rows[epoch_rows(data.sampler, 0)])
    if x is None:
        raise InputError("an estimator reads numbers: of pictures their frozen features")
    prepare = Standardised(x)
    estimator.fit(prepare(x).numpy(), data.y[epoch_rows(data.sampler, 0)])
    return FittedEstimator(estimator, data.source, prepare, data.classes)
