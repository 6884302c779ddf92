"""Estimators of the target's label marginal from predictions: mean prediction, BBSE, RLLS, MLLS.

They assume label shift: p(y) may differ between source and target, p(x | y) does not. Formulas: RLSbench,
appendix F, and where its released code differs, the variant "code". That code silently falls back to the mean
prediction; here failure is an `EstimationError`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, as_floats, as_ids, check_lengths, one_of
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.label_shift.calibration import PENALTY, CalibrationKind, Calibrator, fit_calibrator
from shiftdata.evaluation.label_shift.estimate import MarginalEstimate
from shiftdata.evaluation.label_shift.evidence import (
    LARGEST_CONDITION,
    SUM_TOLERANCE,
    AbsentClassError,
    Evidence,
    NotConvergedError,
    SingularMatrixError,
    evidence_of,
    named_classes,
    probabilities_of,
)
from shiftdata.evaluation.label_shift.regularized import solve

#: Where RLSbench's paper and its released code differ.
Variant: TypeAlias = Literal["paper", "code"]
#: The label marginal a classifier was trained on: the source's own, or one balanced by resampling.
TrainedOn: TypeAlias = Literal["source", "balanced"]
#: A marginal, and the number of iterations.
Estimated: TypeAlias = tuple[FloatArray, int]

#: Reasons for a bias that more rows do not remove.
MEAN = "the mean prediction is biased towards the hold-out's shares under label shift"
UNCALIBRATED = "mlls without calibration is biased where the classifier is miscalibrated"


def _mean(evidence: Evidence, *, hard: bool = False) -> Estimated:
    """The mean prediction on the target, the baseline (RLSbench, equation 3). Biased under label shift."""
    return evidence.observed, 1


def _bbse(evidence: Evidence, *, variant: Variant = "paper", hard: bool = False) -> Estimated:
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
        return np.maximum(weights, 0) * evidence.prior, 1
    evidence.need_every_class()
    condition = np.linalg.cond(evidence.class_means)
    if not condition < LARGEST_CONDITION:
        raise SingularMatrixError(
            f"predicted against true classes cannot be inverted (condition {condition:.1e}): a class is "
            "never predicted, or two are predicted alike. Use hard=False, or rlls"
        )
    weights = np.maximum(np.linalg.solve(evidence.confusion, evidence.observed), 0)
    return _normalised(weights * evidence.prior), 1


def _rlls(
    evidence: Evidence, *, variant: Variant = "paper", hard: bool = False, rho: float | None = None
) -> Estimated:
    """Regularised learning under label shift (Azizzadenesheli et al., ICLR 2019).

    Minimises |C w - mu| + rho |w - 1| (RLSbench, equation 1). "paper": over w >= 0 with sum w p_s = 1.
    "code": over w >= 0 alone, and of |C (w - 1) - (mu - p_s)|, with the true source marginal p_s where the
    paper has the predicted one, C 1; that marginal need not sum to 1.
    """
    evidence.need_every_class()
    strength = rlls_rho(len(evidence.labels), evidence.n_classes) if rho is None else rho
    if not 0 < strength < np.inf:
        raise InputError(f"rho must be above 0 and finite, got {rho}: for no regularisation, use bbse")
    confusion, prior = evidence.confusion, evidence.prior
    if variant == "paper":
        solution = solve(confusion, evidence.observed, strength, prior)
    else:
        solution = solve(confusion, evidence.observed - prior + confusion.sum(axis=1), strength)
    if solution.gap > max(1e-6 * solution.objective, 1e-9):
        raise NotConvergedError(f"RLLS stopped {solution.gap:.1e} above the minimum: pass another rho")
    marginal = solution.weights * prior
    return _normalised(marginal) if variant == "paper" else marginal, solution.iterations


def _mlls(
    evidence: Evidence, *, variant: Variant = "paper", tolerance: float = 1e-6, max_iterations: int = 10_000
) -> Estimated:
    """Maximum likelihood by expectation maximisation (Saerens et al. 2002; Alexandari et al., ICML 2020).

    Maximises the mean of log(w f(x)) over the target (RLSbench, equation 2); f should be calibrated. The
    predictions are divided by the hold-out's label marginal ("paper"), or by its mean prediction ("code").
    It ends when the marginal changes by less than `tolerance` in L1.
    """
    if not evidence.soft:
        raise InputError("mlls needs probabilities, and class ids were given: use bbse or rlls for them")
    evidence.need_every_class()
    base = evidence.prior if variant == "paper" else evidence.source.mean(axis=0)
    if not (base > 0).all():
        raise AbsentClassError(
            f"{named_classes(np.flatnonzero(base == 0))} are never predicted on the hold-out: use "
            'variant="paper"'
        )
    ratios = evidence.target / base
    marginal = evidence.observed
    for iteration in range(1, max_iterations + 1):
        before, marginal = marginal, marginal * (ratios.T @ (1 / (ratios @ marginal))) / len(ratios)
        change = float(np.abs(marginal - before).sum())
        if change < tolerance:
            return _normalised(marginal), iteration
    raise NotConvergedError(
        f"MLLS still changed by {change:.1e} after {max_iterations} steps: raise max_iterations or tolerance"
    )


#: The estimators by name.
ESTIMATORS: Mapping[str, Callable[..., Estimated]] = MappingProxyType(
    {"bbse": _bbse, "mean": _mean, "mlls": _mlls, "rlls": _rlls}
)


def estimate_marginal(
    method: str,
    source: ArrayLike,
    labels: ArrayLike,
    target: ArrayLike,
    *,
    calibration: CalibrationKind | Literal["auto"] | None = "auto",
    origins: ArrayLike | None = None,
    source_origins: ArrayLike | None = None,
    **options: Any,
) -> MarginalEstimate:
    """Estimate the target's label marginal by "mean", "bbse", "rlls" or "mlls", with intervals.

    >>> source, labels = [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]] * 25, [0, 0, 1, 1] * 25
    >>> target = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]] * 25
    >>> print(estimate_marginal("bbse", source, labels, target))
    bbse-paper-soft, 100 source and 100 target rows
    label  share  95 % interval  source
    0      0.750  0.657 - 0.830   0.500
    1      0.250  0.170 - 0.343   0.500

    Args:
        method: The estimator.
        source: Predictions (probabilities or class ids) on labelled source rows that were not trained on.
        labels: The true class ids of those rows.
        target: Predictions on the target, in the same form.
        calibration: First calibrate on the hold-out, by "temperature", or by "bcts" with a bias for each
            class. "auto" is "bcts" for "mlls", as Alexandari et al. advise, and None for the rest, which hold
            for any probabilities, and for `variant="code"`, which does not calibrate.
        origins: The origin of each target row: rows of one origin are drawn together for the intervals. Give
            them where rows are repeated, as in a target that was drawn with replacement.
        source_origins: The same for the source.
        options: `variant`, "paper" or "code", of all but "mean"; `hard`, to count most probable classes, of
            all but "mlls"; `rho` of "rlls"; `tolerance` and `max_iterations` of "mlls".

    """
    if method not in ESTIMATORS:
        raise not_found("estimator", method, ESTIMATORS)
    given = {name: value for name, value in options.items() if value is not None}
    takes = list(inspect.signature(ESTIMATORS[method]).parameters)[1:]
    for name in sorted(given.keys() - takes):
        raise InputError(
            f"the estimator {method!r} takes no {name}, only {', '.join(['calibration', *takes])}"
        )
    variant = given.get("variant", "paper")
    one_of("variant", variant, ("paper", "code"))
    evidence = evidence_of(source, labels, target, origins=origins, source_origins=source_origins)
    if calibration == "auto":
        calibration = "bcts" if method == "mlls" and variant == "paper" and evidence.soft else None
    calibrator = None
    if calibration is not None:
        calibrator = _fitted(evidence, calibration)
        evidence = replace(evidence, source=calibrator(evidence.source), target=calibrator(evidence.target))
    if given.get("hard"):
        evidence = evidence.hardened()
    marginal, iterations = ESTIMATORS[method](evidence, **given)
    prior = evidence.prior
    form = "" if method == "mlls" else "-soft" if evidence.soft else "-hard"
    name = f"{method}-{variant}" if "variant" in takes else method
    return MarginalEstimate(
        marginal=marginal,
        weights=np.divide(marginal, prior, out=np.full(len(prior), np.nan), where=prior > 0),
        method=name + form + (f"+{calibration}" if calibration else ""),
        iterations=iterations,
        caveat=MEAN if method == "mean" else UNCALIBRATED if method == "mlls" and not calibration else "",
        calibrator=calibrator,
        evidence=evidence,
    )


def _fitted(evidence: Evidence, kind: CalibrationKind) -> Calibrator:
    if not evidence.soft:
        raise InputError("class ids cannot be calibrated: give probabilities, or calibration=None")
    if kind == "bcts":
        evidence.need_every_class()
    penalty = PENALTY if kind == "bcts" else 0.0
    return fit_calibrator(evidence.source, evidence.labels, kind, penalty=penalty)


def rlls_rho(n: int, n_classes: int, *, delta: float = 0.05, coefficient: float = 0.01) -> float:
    """The regularisation of RLLS for n examples: Azizzadenesheli's bound, with RLSbench's coefficient."""
    logarithm = np.log(2 * n_classes / delta)
    return float(coefficient * 3 * (2 * logarithm / (3 * n) + np.sqrt(2 * logarithm / n)))


def reweight(
    probabilities: ArrayLike, estimate: MarginalEstimate, *, trained_on: TrainedOn = "source"
) -> FloatArray:
    """Adapt predictions to the estimated marginal: the RW of RLSbench (Algorithm 1, step 8; appendix F).

    Multiplies by p_t / p_s, or by p_t alone if the classifier was trained on balanced labels, and divides
    each row by its sum; the adapted prediction is its `argmax(axis=1)`.
    """
    predictions = probabilities_of(probabilities, "probabilities")
    one_of("trained_on", trained_on, ("source", "balanced"))
    factors = _usable(estimate.weights if trained_on == "source" else estimate.marginal)
    if predictions.shape[1] != len(factors):
        raise InputError(
            f"the predictions have {predictions.shape[1]} classes and the estimate {len(factors)}: "
            "they must be the same"
        )
    weighted = predictions * factors
    sums = weighted.sum(axis=1, keepdims=True)
    if zeros := int((sums == 0).sum()):
        raise InputError(
            f"{zeros} of {len(sums)} rows have probability only where the estimated weight is 0: "
            "give probabilities that are not exactly 0, or another estimate"
        )
    return np.asarray(weighted / sums)


def label_weights(target: ArrayLike, source: ArrayLike) -> FloatArray:
    """The importance weight p_t(y) / p_s(y) of each class, from two known label marginals.

    Index it with labels for the weights of a loss. A class that neither has gets 0.

    >>> label_weights([0.5, 0.5, 0], [0.25, 0.75, 0]).round(3).tolist()
    [2.0, 0.667, 0.0]
    """
    p_t, p_s = as_floats("target", target), as_floats("source", source)
    check_lengths(target=p_t, source=p_s)
    for name, shares in (("target", p_t), ("source", p_s)):
        if (shares < 0).any() or abs(shares.sum() - 1) > SUM_TOLERANCE:
            raise InputError(
                f"{name} is a marginal: shares of at least 0 that sum to 1, got {shares.tolist()}"
            )
    if (absent := np.flatnonzero((p_s == 0) & (p_t > 0))).size:
        raise InputError(
            f"{named_classes(absent)} are in the target and not in the source: they have no weight"
        )
    return np.divide(p_t, p_s, out=np.zeros_like(p_t), where=p_s > 0)


def importance_weights(estimate: MarginalEstimate, labels: ArrayLike) -> FloatArray:
    """The weight p_t(y) / p_s(y) of each labelled source example, for a weighted loss.

    As in RLSbench's importance-weighted objectives (appendix L, equations 9 and 10).
    """
    weights = _usable(estimate.weights)
    return np.asarray(weights[as_ids("labels", labels, len(weights))])


def _normalised(marginal: FloatArray) -> FloatArray:
    return np.asarray(marginal / marginal.sum())


def _usable(factors: FloatArray) -> FloatArray:
    unknown = np.flatnonzero(~np.isfinite(factors))
    if unknown.size:
        raise InputError(
            f"the estimate has no weight for classes {unknown.tolist()}, which the hold-out lacked: "
            "estimate with a hold-out that has every class"
        )
    return factors
