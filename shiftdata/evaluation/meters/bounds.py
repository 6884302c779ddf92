"""Bounds of the target error by the two meters (NICO++, theorems 4.2 and 4.3).

For any hypothesis h, a loss that is symmetric and obeys the triangle inequality, covariate shift M_cov (a
supremum over pairs of hypotheses), and the smaller and larger concept shift M_min and M_max:

    theorem 4.2:  error_target(h) <= error_source(h) + M_cov + M_min
    theorem 4.3:  error_target(h) >= M_max - M_cov - error_source(h).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.evaluation.meters.concept import ConceptShift, compare, disagreement, share
from shiftdata.evaluation.meters.covariate import CovariateShift, covariate_shift
from shiftdata.evaluation.meters.sides import Origins
from shiftdata.evaluation.metrics import Interval
from shiftdata.evaluation.metrics.records import number
from shiftdata.tables import aligned


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The terms of both theorems, the bounds that they give, and the measured target error."""

    source_error: Interval
    target_error: Interval
    covariate: CovariateShift
    concept: ConceptShift
    hypothesis: str
    assumptions: tuple[str, ...] = (
        "The labelling functions of both domains are hypotheses: here, linear in the features.",
        "The loss is symmetric and obeys the triangle inequality: the 0-1 loss does.",
        "Covariate shift is what one pair of hypotheses reaches, a lower bound of the supremum: the true "
        "bound of theorem 4.2 may be larger, that of 4.3 smaller. Neither is a guarantee.",
        "Errors and concept shift are estimated from rows; noise in labels counts as an error.",
    )

    @property
    def upper(self) -> float:
        """The bound of theorem 4.2, empty from 1 on."""
        return self.source_error.estimate + self.covariate.value + self.concept.minimum.estimate

    @property
    def lower(self) -> float:
        """The bound of theorem 4.3, empty up to 0."""
        return self.concept.maximum.estimate - self.covariate.value - self.source_error.estimate

    def __str__(self) -> str:
        terms = {
            "source error": self.source_error,
            "covariate shift (a lower bound)": self.covariate.interval,
            "concept shift, min": self.concept.minimum,
            "concept shift, max": self.concept.maximum,
            "target error": self.target_error,
        }
        rows = [[name, *map(number, (term.estimate, term.low, term.high))] for name, term in terms.items()]
        lines = [
            aligned(["term", "value", "low", "high"], rows),
            f"theorem 4.2: target error of {self.hypothesis} at most {number(self.upper)}",
            f"theorem 4.3: target error of {self.hypothesis} at least {number(self.lower)}",
        ]
        return "\n".join([*lines, *(f"- {assumption}" for assumption in self.assumptions)])


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
    """Bound the target error of a model from frozen features of two labelled domains.

    Rows whose label the other domain lacks are left out. `predictions` are a model's for all rows of the
    source and of the target, none of which it was fitted on; by default, those of logistic regressions that
    are fitted on the source rows of nine groups of ten. `origins` and `seed` are as for `covariate_shift`.
    """
    labels = source_labels, target_labels
    concept, mask, rows, sides, wrong = compare(source, labels[0], target, labels[1], origins, seed)
    if predictions is not None:
        pairs = zip(("source", "target"), labels, predictions, strict=True)
        wrong_by_side = [disagreement(f"labels and predictions of the {name}", pair) for name, *pair in pairs]
        wrong = np.concatenate(wrong_by_side)[mask]
    by_side = None if sides.origins is None else (sides.origins[~sides.target], sides.origins[sides.target])
    return Bounds(
        source_error=share(wrong, ~sides.target, sides.origins),
        target_error=share(wrong, sides.target, sides.origins),
        covariate=covariate_shift(rows[~sides.target], rows[sides.target], origins=by_side, seed=seed),
        concept=concept,
        hypothesis="logistic regressions on the source" if predictions is None else "the given model",
    )
