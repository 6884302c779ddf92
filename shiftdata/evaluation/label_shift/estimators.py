"""Estimators of the target's label marginal from predictions: mean prediction, BBSE, RLLS, MLLS.

They assume label shift: p(y) may differ between source and target, p(x | y) does not. Formulas: RLSbench,
appendix F, and where its released code differs, the variant "code". That code silently falls back to the mean
prediction; here failure is an `EstimationError`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, IntArray, one_of
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.label_shift.calibration import Calibrator, fit_calibrator
from shiftdata.evaluation.label_shift.diagnosis import LabelShiftWarning, miscalibration, weak_matrix
from shiftdata.evaluation.label_shift.estimate import MarginalEstimate
from shiftdata.evaluation.label_shift.evidence import (
    LARGEST_CONDITION,
    EstimationError,
    Evidence,
    evidence_of,
    named_classes,
    probabilities_of,
)
from shiftdata.evaluation.label_shift.regularized import solve

Variant: TypeAlias = Literal["paper", "code"]
#: MLLS ends when the marginal changes by less in L1, or fails after that many steps.
TOLERANCE, MAX_STEPS = 1e-6, 10_000
#: Reasons for a bias that more rows do not remove.
MEAN = "the mean prediction is biased towards the hold-out's shares under label shift"
UNCALIBRATED = "mlls without calibration is biased where the classifier is miscalibrated"
#: Ratios are at least this: a class that is estimated not to occur is unlikely, not impossible.
SMALLEST_RATIO = 1e-6


class EstimateWarning(UserWarning):
    """The target's label shares could not be estimated; the mean prediction was used instead."""


def _mean(evidence: Evidence, variant: Variant) -> FloatArray:
    """The mean prediction on the target, the baseline (RLSbench, equation 3). Biased under label shift."""
    return evidence.observed


def _bbse(evidence: Evidence, variant: Variant) -> FloatArray:
    """Black-box shift estimation (Lipton et al., ICML 2018): w = C^-1 mu, negative weights set to 0.

    C is the joint of predicted and true classes on the hold-out, mu the mean prediction on the target. The
    marginal is w p_s, divided by its sum. "code" solves (C'C + 1e-8 I) w = C' mu instead, which is never
    singular: a class without hold-out rows gets 0, two that are predicted alike share their mass. It does not
    divide by the sum, so the marginal need not sum to 1.
    """
    if variant == "code":
        confusion = evidence.confusion
        curvature = confusion.T @ confusion + 1e-8 * np.eye(evidence.n_classes)
        weights = np.linalg.solve(curvature, confusion.T @ evidence.observed)
        return np.asarray(np.maximum(weights, 0) * evidence.prior)
    evidence.need_every_class()
    condition = np.linalg.cond(evidence.class_means)
    if not condition < LARGEST_CONDITION:
        raise EstimationError(
            f"predicted against true classes cannot be inverted (condition {condition:.1e}): a class is "
            "never predicted, or two are predicted alike. Give probabilities, or use rlls"
        )
    weights = np.maximum(np.linalg.solve(evidence.confusion, evidence.observed), 0)
    return _normalised(weights * evidence.prior)


def _rlls(evidence: Evidence, variant: Variant) -> FloatArray:
    """Regularised learning under label shift (Azizzadenesheli et al., ICLR 2019).

    Minimises |C w - mu| + rho |w - 1| (RLSbench, equation 1). "paper": over w >= 0 with sum w p_s = 1.
    "code": over w >= 0 alone, and of |C (w - 1) - (mu - p_s)|, with the true source marginal p_s where the
    paper has the predicted one, C 1; that marginal need not sum to 1.
    """
    evidence.need_every_class()
    rho = rlls_rho(len(evidence.labels), evidence.n_classes)
    confusion, prior = evidence.confusion, evidence.prior
    if variant == "paper":
        solution = solve(confusion, evidence.observed, rho, prior)
    else:
        solution = solve(confusion, evidence.observed - prior + confusion.sum(axis=1), rho)
    if solution.gap > max(1e-6 * solution.objective, 1e-9):
        raise EstimationError(f"RLLS stopped {solution.gap:.1e} above the minimum: use bbse or mlls")
    marginal = solution.weights * prior
    return _normalised(marginal) if variant == "paper" else marginal


def _mlls(evidence: Evidence, variant: Variant) -> FloatArray:
    """Maximum likelihood by expectation maximisation (Saerens et al. 2002; Alexandari et al., ICML 2020).

    Maximises the mean of log(w f(x)) over the target (RLSbench, equation 2); f should be calibrated. The
    predictions are divided by the hold-out's label marginal ("paper"), or by its mean prediction ("code").
    """
    if not evidence.soft:
        raise InputError("mlls needs probabilities, and class ids were given: use bbse or rlls for them")
    evidence.need_every_class()
    base = evidence.prior if variant == "paper" else evidence.source.mean(axis=0)
    if not (base > 0).all():
        raise EstimationError(
            f"{named_classes(np.flatnonzero(base == 0))} are never predicted: use variant='paper'"
        )
    ratios = evidence.target / base
    marginal = evidence.observed
    for _ in range(MAX_STEPS):
        # q_k <- mean over rows of q_k r_k / sum_j q_j r_j, r = f / base: the mean posterior under q.
        before, marginal = marginal, marginal * (ratios.T @ (1 / (ratios @ marginal))) / len(ratios)
        change = float(np.abs(marginal - before).sum())
        if change < TOLERANCE:
            return _normalised(marginal)
    raise EstimationError(f"MLLS still changed by {change:.1e} after {MAX_STEPS} steps: use bbse or rlls")


#: The estimators by name.
ESTIMATORS: Mapping[str, Callable[[Evidence, Variant], FloatArray]] = {
    "bbse": _bbse,
    "mean": _mean,
    "mlls": _mlls,
    "rlls": _rlls,
}


def estimate_marginal(
    method: str,
    source: ArrayLike,
    labels: ArrayLike,
    target: ArrayLike,
    *,
    variant: Variant = "paper",
    calibrate: bool | None = None,
    origins: ArrayLike | None = None,
    source_origins: ArrayLike | None = None,
    warn: bool = True,
) -> MarginalEstimate:
    """Estimate the target's label marginal, with intervals.

    Args:
        method: "mean", "bbse", "rlls" or "mlls".
        source: Predictions (probabilities or class ids) on labelled source rows that were not trained on.
        labels: The true class ids of those rows.
        target: Predictions on the target, in the same form.
        variant: The "paper" or its released "code"; the mean has one form.
        calibrate: First calibrate on the hold-out, by a temperature and a bias for each class. By default
            for "mlls" on probabilities, as Alexandari et al. advise, but not for its variant "code"; the
            others hold for any probabilities.
        origins: The origin of each target row: rows of one origin are drawn together for the intervals. Give
            them where rows are repeated, as in a target that was drawn with replacement.
        source_origins: The same for the source.
        warn: Warn (`LabelShiftWarning`) of absent classes, of a nearly singular matrix of predictions and,
            for "mlls", of miscalibrated probabilities.

    """
    if method not in ESTIMATORS:
        raise not_found("estimator", method, ESTIMATORS)
    one_of("variant", variant, ("paper", "code"))
    raw = evidence = evidence_of(source, labels, target, origins=origins, source_origins=source_origins)
    if calibrate is None:
        calibrate = method == "mlls" and variant == "paper" and raw.soft
    calibrator = fit_calibrator(raw) if calibrate else None
    if calibrator:
        evidence = replace(raw, source=calibrator(raw.source), target=calibrator(raw.target))
    marginal = ESTIMATORS[method](evidence, variant)
    if warn:
        for weakness in _weaknesses(method, raw, evidence, calibrator):
            warnings.warn(weakness, LabelShiftWarning, stacklevel=2)
    prior = evidence.prior
    form = "" if method == "mlls" else "-soft" if evidence.soft else "-hard"
    name = method if method == "mean" else f"{method}-{variant}"
    return MarginalEstimate(
        marginal=marginal,
        weights=np.divide(marginal, prior, out=np.full(len(prior), np.nan), where=prior > 0),
        method=name + form + ("+bcts" if calibrate else ""),
        caveat=MEAN if method == "mean" else UNCALIBRATED if method == "mlls" and not calibrate else "",
        calibrator=calibrator,
        evidence=evidence,
    )


def _weaknesses(
    method: str, raw: Evidence, evidence: Evidence, calibrator: Calibrator | None
) -> Iterator[str]:
    """Describe what makes an estimate unreliable."""
    if weakness := weak_matrix(evidence):
        yield weakness
    if method != "mlls":  # the others hold for any probabilities
        return
    advice = "Reweight `estimate.calibrator(predictions)`, not the raw predictions"
    if calibrator is None:
        advice = "This biases the estimate: leave `calibrate` at its default"
        with suppress(EstimationError):
            calibrator = fit_calibrator(raw)
    if calibrator is not None and (weakness := miscalibration(raw, calibrator)):
        yield f"{weakness}. {advice}"


def rlls_rho(n: int, n_classes: int) -> float:
    """Return the rho of RLLS: Azizzadenesheli's bound at delta = .05, times RLSbench's coefficient, .01."""
    logarithm = np.log(2 * n_classes / 0.05)
    return float(0.01 * 3 * (2 * logarithm / (3 * n) + np.sqrt(2 * logarithm / n)))


def reweight(probabilities: ArrayLike, estimate: MarginalEstimate) -> FloatArray:
    """Adapt predictions to the estimated marginal: the RW of RLSbench (Algorithm 1, step 8; appendix F).

    Multiplies by p_t / p_s and divides each row by its sum; the adapted prediction is its `argmax(axis=1)`.
    """
    predictions = probabilities_of(probabilities, "probabilities")
    factors = estimate.weights
    if predictions.shape[1] != len(factors):
        raise InputError(
            f"the predictions have {predictions.shape[1]} classes, the estimate {len(factors)}: give the same"
        )
    if (unknown := np.flatnonzero(np.isnan(factors))).size:
        raise InputError(
            f"{named_classes(unknown)} have no weight: estimate it from a hold-out with every class"
        )
    weighted = predictions * factors
    sums = weighted.sum(axis=1, keepdims=True)
    if zeros := int((sums == 0).sum()):
        raise InputError(
            f"{zeros} of {len(sums)} rows have probability only where the weight is 0: use another estimate"
        )
    return np.asarray(weighted / sums)


def _normalised(marginal: FloatArray) -> FloatArray:
    return np.asarray(marginal / marginal.sum())


def log_ratios(
    estimator: str, source: FloatArray, labels: IntArray, target: FloatArray, trained: FloatArray
) -> FloatArray:
    """Return log(p_t / p_train) of each class, 0 for classes without a label.

    `source` and `target` are a classifier's probabilities of rows with `labels` and of the target's rows,
    `trained` the label shares that it was trained on. Where shares cannot be estimated, the mean prediction
    is used instead.
    """
    present = np.unique(labels)
    renumbered = np.searchsorted(present, labels)
    source, target = _shares(source[:, present]), _shares(target[:, present])
    if estimator == "mlls":  # it reads them as posteriors under the label shares of the source rows
        factors = np.bincount(renumbered) / len(labels) / np.maximum(trained[present], SMALLEST_RATIO)
        source, target = _shares(source * factors), _shares(target * factors)
    try:
        marginal = estimate_marginal(estimator, source, renumbered, target, warn=False).marginal
    except EstimationError as error:
        warnings.warn(f"{error}; the mean prediction is used instead", EstimateWarning, stacklevel=2)
        marginal = target.mean(axis=0)
    prior = _shares(trained[None, present])[0]
    ratios = np.zeros(len(trained))
    ratios[present] = np.log(np.maximum(marginal / np.maximum(prior, SMALLEST_RATIO), SMALLEST_RATIO))
    return ratios


def _shares(p: FloatArray) -> FloatArray:
    """Divide rows by their sums; rows of zeros become uniform."""
    p = np.maximum(p, 1e-12)
    return np.asarray(p / p.sum(axis=1, keepdims=True))
