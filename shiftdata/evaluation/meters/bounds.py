"""Bounds of the target error by the two meters (NICO++, theorems 4.2 and 4.3), as a report.

For a loss that is symmetric and obeys the triangle inequality, labelling functions f_source and f_target of a
class of hypotheses, and any hypothesis h of it,

    theorem 4.2:  error_target(h) <= error_source(h) + M_cov + M_cpt_min
    theorem 4.3:  error_target(h) >= M_cpt_max - M_cov - error_source(h).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.evaluation.meters.concept import ConceptShift, Fits, share
from shiftdata.evaluation.meters.covariate import CovariateShift, covariate_shift
from shiftdata.evaluation.meters.sides import Mask, Origins, codes_of
from shiftdata.evaluation.metrics import Interval
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.tables import aligned


@dataclass(frozen=True, kw_only=True)
class Bounds(Record):
    """The terms of both theorems, the bounds that they give, and the target error that was measured."""

    source_error: Interval
    target_error: Interval
    covariate: CovariateShift
    concept: ConceptShift
    hypothesis: str
    assumptions: tuple[str, ...] = (
        "The functions that label both domains are hypotheses: here, linear in the features.",
        "The loss is symmetric and obeys the triangle inequality: the 0-1 loss does.",
        "Covariate shift is a supremum over pairs of hypotheses. The value is what one pair reaches, a lower "
        "bound: the true bound of theorem 4.2 may be larger, that of 4.3 smaller. Neither is a guarantee.",
        "Errors and concept shift are estimated from rows. Errors are against labels: their noise counts as "
        "an error of h.",
    )

    derived: ClassVar[tuple[str, ...]] = (
        "upper",
        "lower",
        "minimum_less_covariate",
        "maximum_less_covariate",
    )

    @property
    def upper(self) -> float:
        """Of theorem 4.2; from 1 on it says nothing."""
        return self.source_error.estimate + self.covariate.value + self.concept.minimum.estimate

    @property
    def lower(self) -> float:
        """Of theorem 4.3; up to 0 it says nothing."""
        return self.maximum_less_covariate - self.source_error.estimate

    @property
    def minimum_less_covariate(self) -> float:
        return self.concept.minimum.estimate - self.covariate.value

    @property
    def maximum_less_covariate(self) -> float:
        """M_cpt - M_cov of theorem 4.3: above 0, no hypothesis is good on both domains."""
        return self.concept.maximum.estimate - self.covariate.value

    def __str__(self) -> str:
        terms = [
            ("source error", self.source_error, "estimated"),
            ("covariate shift", self.covariate.interval, "lower bound"),
            ("concept shift, min", self.concept.minimum, "estimated"),
            ("concept shift, max", self.concept.maximum, "estimated"),
            ("target error", self.target_error, "estimated"),
        ]
        rows = [[name, *map(number, (at.estimate, at.low, at.high)), kind] for name, at, kind in terms]
        within = self.lower <= self.target_error.estimate <= self.upper
        differences = f"min {self.minimum_less_covariate:+.4f}, max {self.maximum_less_covariate:+.4f}"
        return "\n".join(
            [
                aligned(["term", "value", "low", "high", "is"], rows),
                f"theorem 4.2: target error at most  {number(self.upper)}{_empty(self.upper >= 1)}",
                f"theorem 4.3: target error at least {number(self.lower)}{_empty(self.lower <= 0)}",
                f"measured target error of {self.hypothesis}: {'within' if within else 'outside'} both",
                f"concept shift - covariate shift: {differences}",
                *(f"- {sentence}" for sentence in self.assumptions),
            ]
        )


def bounds(
    source: Any,
    source_labels: Any,
    target: Any,
    target_labels: Any,
    *,
    predictions: tuple[Any, Any] | None = None,
    origins: Origins | None = None,
    seed: int = 0,
) -> Bounds:
    """Both bounds for two labelled domains, from frozen features.

    Labels that one domain lacks are left out of every term.

    Args:
        source: Features, a row an example.
        source_labels: Ids or names.
        target: Features of the other domain.
        target_labels: Ids or names.
        predictions: What a model says of all rows of the source and of the target, none of which it was
            fitted on. Default: the logistic regression that is fitted on the other groups of the source.
        origins: As for `covariate_shift`.
        seed: Keys the groups.

    """
    fits = Fits(source, source_labels, target, target_labels, origins, None, seed)
    sides, mask, n = fits.sides, fits.mask, len(source)
    wrong, hypothesis = fits.wrong, "logistic regressions on the source"
    if predictions is not None:
        missed = [
            _wrong(*both)
            for both in zip(("source", "target"), (source_labels, target_labels), predictions, strict=True)
        ]
        wrong, hypothesis = np.concatenate(missed)[mask], "the given model"
    if origins is not None:
        origins = np.asarray(origins[0])[mask[:n]], np.asarray(origins[1])[mask[n:]]
    return Bounds(
        source_error=share(wrong, ~sides.target, sides.origins),
        target_error=share(wrong, sides.target, sides.origins),
        covariate=covariate_shift(
            fits.rows[~sides.target], fits.rows[sides.target], origins=origins, seed=seed
        ),
        concept=fits.record(),
        hypothesis=hypothesis,
    )


def _wrong(side: str, labels: Any, predicted: Any) -> Mask:
    n = len(np.asarray(labels))
    _, codes = codes_of(f"labels and predictions of the {side}", labels, predicted, n, n)
    wrong: Mask = codes[:n] != codes[n:]
    return wrong


def _empty(is_empty: bool) -> str:
    return " (says nothing)" if is_empty else ""
