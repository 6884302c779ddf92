"""RW: predictions re-weighted by the label shares estimated for the target (RLSbench). Around any method.

    scores = log p_j + log(p_t(j) / p_train(j))

p_train are the label shares that the model was trained on: the source's, uniform after RS or class balancing
(then it is p_t(j) p_j of the paper), those of balanced groups. p_t is estimated at every evaluation, and at
the end, from predictions on labelled source rows (the validation set; without one the training set, which
flatters the model) and on the unlabelled rows, by RLLS ("rw"), or "rw-bbse", "rw-mlls", "rw-mean"; see
`shiftdata.label_shift`. Classes that the source rows lack keep their scores. If an estimate cannot be made,
the mean prediction stands in for it, as in RLSbench's code, but with an `EstimateWarning`. That code
estimates on the test rows themselves.

Rows of the source, by which models are selected, are predicted without p_t, as in the paper: on them RW is
the method that it goes around, and the same checkpoint is selected.

The estimators need one classifier on both sides. Where a method adapts to the target alone (dare, bn-adapt,
tent) it is the adapted one, which predicts the source rows worse than it should: the estimate is off, but not
blind. Were each side predicted as the method means it, both would look alike: adapting evens out what the
shift of labels does to the features.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftdata.baselines.engine import Trainer
from shiftdata.baselines.method import Method, Setup, Wrapper
from shiftdata.baselines.models import Floats
from shiftdata.errors import InputError
from shiftdata.label_shift import EstimationError, estimate_marginal
from shiftdata.metrics.arrays import FloatArray, IntArray

#: Ratios are at least this: a class that is estimated not to occur is unlikely, not impossible.
SMALLEST = 1e-6


class EstimateWarning(UserWarning):
    """The target's label shares could not be estimated; the mean prediction stands in."""


def trained_shares(rule: str, known: Setup) -> FloatArray:
    """The label shares of what a sampler draws."""
    counts = known.class_counts.double()
    if rule in ("rwy", "suby", "class-balanced"):
        counts = (counts > 0).double()
    elif rule in ("rwg", "subg", "uniform-groups", "n-groups"):
        counts = torch.bincount(known.group_class, minlength=known.classes).double()
    shares: FloatArray = (counts / counts.sum()).cpu().numpy()
    return shares


def log_ratios(
    estimator: str, source: FloatArray, labels: IntArray, target: FloatArray, trained: FloatArray
) -> FloatArray:
    """log(p_t / p_train) of each class, 0 for those without a label; probabilities in, one row a row."""
    present = np.unique(labels)
    renumbered = np.searchsorted(present, labels)
    source, target = (_shares(one[:, present]) for one in (source, target))
    if estimator == "mlls":  # it reads them as posteriors under the label shares of the source rows
        factors = np.bincount(renumbered) / len(labels) / np.maximum(trained[present], SMALLEST)
        source, target = _shares(source * factors), _shares(target * factors)
    try:
        marginal = estimate_marginal(estimator, source, renumbered, target, diagnose=False).marginal
    except EstimationError as error:
        warnings.warn(f"{error} Taken: the mean prediction.", EstimateWarning, stacklevel=2)
        marginal = target.mean(axis=0)
    prior = _shares(trained[None, present])[0]
    made = np.zeros(len(trained))
    made[present] = np.log(np.maximum(marginal / np.maximum(prior, SMALLEST), SMALLEST))
    return made


def _one_classifier(method: Method) -> bool:
    """Whether source rows are predicted as all others, so that the validation set's scores serve here too."""
    plain = (Method.predict_source, Wrapper.predict_source)
    return all(type(one).predict_source in plain for one in method.modules() if isinstance(one, Method))


def _probabilities(scores: Floats) -> FloatArray:
    made: FloatArray = torch.softmax(torch.from_numpy(scores).double(), 1).numpy()
    return made


def _shares(p: FloatArray) -> FloatArray:
    """Rows that sum to 1; all equal where nothing is left."""
    p = np.maximum(p, 1e-12)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


class RW(Wrapper):
    """Any method, its predictions re-weighted by the target's label shares, estimated by RLLS."""

    estimator: ClassVar[str] = "rlls"
    code_version: ClassVar[int] = 2  # 2: estimated at every evaluation; source rows are not corrected

    def __init__(self, inner: Method, *, variant: str = "fixed", **given: float) -> None:
        super().__init__(inner, variant=variant, **given)
        if "unknown" in inner.needs:
            raise InputError(
                f"{type(inner).__name__} predicts unknown classes, and rw knows shares of known ones alone: "
                "leave one of them out"
            )
        self.needs = inner.needs | {"target"}

    def setup(self, network: Any, known: Setup) -> None:
        super().setup(network, known)
        self.register_buffer("log_ratio", torch.zeros(known.classes))

    def correct(self, trainer: Trainer) -> None:
        super().correct(trainer)
        data = trainer.data
        if data.target is None or not len(data.target):
            raise InputError("rw estimates the label shares of the target, and the target has no row")
        rows, labels = data.rows, data.y
        if data.select is not None and data.select_y is not None and len(data.select):
            rows, labels = data.select, data.select_y
        if rows is data.select and _one_classifier(self):
            source = _probabilities(trainer.validation_scores())
        else:
            source = _probabilities(trainer.applied(self.inner.predict, rows))
        target = _probabilities(trainer.applied(self.inner.predict, data.target))
        if not (np.isfinite(source).all() and np.isfinite(target).all()):
            raise InputError(
                "rw cannot estimate label shares from scores that are not finite: lower learning_rate"
            )
        # The outermost wrapper's rule: in "rs+rw+dann" it is that of rs.
        trained = trained_shares(trainer.method.sampler, self.known)
        made = log_ratios(self.estimator, source, labels, target, trained)
        self.get_buffer("log_ratio").copy_(torch.from_numpy(made))

    def predict(self, x: Tensor) -> Tensor:
        return torch.log_softmax(super().predict(x).float(), 1) + self.get_buffer("log_ratio")


class RWBBSE(RW):
    """RW with black-box shift estimation."""

    estimator = "bbse"


class RWMLLS(RW):
    """RW with the maximum of the likelihood, for probabilities that are calibrated on the source rows."""

    estimator = "mlls"


class RWMean(RW):
    """RW with the mean prediction for label shares: the baseline, biased under label shift."""

    estimator = "mean"
