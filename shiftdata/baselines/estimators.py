"""Estimators of scikit-learn, or with its `fit` and `predict`: trained and judged as networks are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shiftdata.baselines.data import Data, epoch_rows
from shiftdata.baselines.method import Method
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.models import Floats, Standardised
from shiftdata.errors import InputError
from shiftdata.metrics.arrays import IntArray


def is_estimator(backbone: Any) -> bool:
    """Say whether it has scikit-learn's `fit` and `predict`."""
    return callable(getattr(backbone, "fit", None)) and callable(getattr(backbone, "predict", None))


@dataclass(frozen=True, eq=False)
class FittedEstimator:
    """An estimator that was fitted on standardised rows; `read` gives the rows of the base."""

    estimator: Any
    read: Callable[[IntArray], Floats]
    classes: int

    def scores(self, rows: IntArray) -> Floats:
        """Return logarithms of probabilities where the estimator has them, else votes: a column a class."""
        logits = np.full((len(rows), self.classes), -np.inf, np.float32)
        if len(rows) and hasattr(self.estimator, "predict_proba"):
            with np.errstate(divide="ignore"):
                logits[:, self.estimator.classes_] = np.log(self.estimator.predict_proba(self.read(rows)))
        elif len(rows):
            logits[np.arange(len(rows)), self.estimator.predict(self.read(rows))] = 0
        return logits

    source_scores = scores  # an estimator adapts to no target


def fit_estimator(estimator: Any, method: Method, data: Data) -> FittedEstimator:
    """Fit an estimator on the rows that a method's sampler draws in its first epoch."""
    kind = type(method)
    if (kind.loss, kind.stages, kind.finish) != (ERM.loss, ERM.stages, ERM.finish):
        raise InputError(
            f"{kind.__name__} trains networks: with an estimator only the draw of rows can be chosen, by "
            "erm, rwy, rwg, suby or subg"
        )
    x, positions = data.inputs.x, data.inputs.positions
    if x.ndim != 2:
        raise InputError("an estimator reads numbers: of pictures their frozen features")
    drawn = epoch_rows(data.sampler, 0)
    prepare = Standardised(x[positions(data.rows[drawn])])

    def read(rows: IntArray) -> Floats:
        return prepare(torch.from_numpy(x[positions(rows)])).numpy()

    estimator.fit(read(data.rows[drawn]), data.y[drawn])
    return FittedEstimator(estimator, read, data.classes)
