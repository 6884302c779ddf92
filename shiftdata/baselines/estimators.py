"""Estimators with scikit-learn's `fit` and `predict`, trained and judged as networks are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.baselines.engine import epoch_rows
from shiftdata.baselines.method import Method
from shiftdata.baselines.methods.erm import ERM
from shiftdata.baselines.models import Floats, Standardised
from shiftdata.baselines.training_data import Data
from shiftdata.data.arrays import IntArray
from shiftdata.data.loading.sources import Source
from shiftdata.errors import InputError


@dataclass(frozen=True, eq=False)
class FittedEstimator:
    """An estimator, fitted on standardised lines of a source."""

    estimator: Any
    source: Source
    prepare: Standardised
    classes: int

    def scores(self, rows: IntArray, source: Source | None = None) -> Floats:
        """Return log probabilities if the estimator has them, else 0 for the predicted class."""
        logits = np.full((len(rows), self.classes), -np.inf, np.float32)
        if not len(rows):
            return logits
        lines = (source or self.source).lines(rows)
        assert lines is not None  # it was fitted on some
        x = self.prepare(lines).numpy()
        if hasattr(self.estimator, "predict_proba"):
            with np.errstate(divide="ignore"):
                logits[:, self.estimator.classes_] = np.log(self.estimator.predict_proba(x))
        else:
            logits[np.arange(len(rows)), self.estimator.predict(x)] = 0
        return logits

    source_scores = scores  # an estimator adapts to no target


def fit_estimator(estimator: Any, method: Method, data: Data) -> FittedEstimator:
    """Fit an estimator on the rows that a method's sampler draws in its first epoch."""
    kind = type(method)
    if (kind.loss, kind.stages, kind.finish) != (ERM.loss, ERM.stages, ERM.finish):
        raise InputError(
            f"{kind.__name__} trains networks: for an estimator take erm, rwy, rwg, suby or subg, "
            "which choose its rows"
        )
    drawn = epoch_rows(data.sampler, 0)
    x = data.source.lines(data.rows[drawn])
    if x is None:
        raise InputError("an estimator reads numbers, such as frozen features of pictures")
    prepare = Standardised(x)
    estimator.fit(prepare(x).numpy(), data.y[drawn])
    return FittedEstimator(estimator, data.source, prepare, data.classes)
