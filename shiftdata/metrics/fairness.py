"""Equal opportunity and equalised odds (Hardt et al. 2016) over the values of an attribute.

The attribute is the nuisance (style, domain), not the group id: a group of label and nuisance has one label
only, and the odds of a class are taken within an attribute value over all labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, IntArray, as_ids, as_labels_and_predictions, check_lengths
from shiftdata.metrics.records import Record, number, table
from shiftdata.metrics.statistics import accuracies


@dataclass(frozen=True, eq=False)
class GroupOdds(Record):
    """True and false positive rates of each class (row) under each attribute value (column).

    Rates without rows are nan with n = 0, and so is every gap that needs them.
    """

    classes: IntArray
    true_positive: FloatArray
    false_positive: FloatArray
    n_positive: IntArray
    n_negative: IntArray

    derived: ClassVar[tuple[str, ...]] = (
        "opportunity_gaps",
        "odds_gaps",
        "equal_opportunity",
        "equalized_odds",
        "mean_equal_opportunity",
        "mean_equalized_odds",
    )

    @property
    def opportunity_gaps(self) -> FloatArray:
        """For each class: the largest difference of true positive rates between attribute values."""
        return _range(self.true_positive)

    @property
    def odds_gaps(self) -> FloatArray:
        """For each class: the larger of the differences of true and of false positive rates."""
        return np.maximum(_range(self.true_positive), _range(self.false_positive))

    @property
    def equal_opportunity(self) -> float:
        """The largest opportunity gap of a class: 0 is fair."""
        return float(self.opportunity_gaps.max())

    @property
    def equalized_odds(self) -> float:
        """The largest odds gap of a class: 0 is fair."""
        return float(self.odds_gaps.max())

    @property
    def mean_equal_opportunity(self) -> float:
        """The opportunity gap, the mean over classes."""
        return float(self.opportunity_gaps.mean())

    @property
    def mean_equalized_odds(self) -> float:
        """The odds gap, the mean over classes."""
        return float(self.odds_gaps.mean())

    def __str__(self) -> str:
        rows = [
            [str(label), number(opportunity), number(odds)]
            for label, opportunity, odds in zip(
                self.classes, self.opportunity_gaps, self.odds_gaps, strict=True
            )
        ]
        return (
            f"equal opportunity {number(self.equal_opportunity)}, "
            f"equalised odds {number(self.equalized_odds)} (largest gap of a class; means "
            f"{number(self.mean_equal_opportunity)} and {number(self.mean_equalized_odds)})\n"
            + table(["class", "opportunity gap", "odds gap"], rows)
        )


def group_odds(
    labels: Any,
    predictions: Any,
    attributes: Any,
    *,
    n_classes: int,
    n_attributes: int,
    positive: int | None = None,
) -> GroupOdds:
    """The rates behind equal opportunity and equalised odds.

    Args:
        labels: True class ids.
        predictions: Predicted class ids, or rows of class scores.
        attributes: The attribute value of each row, from 0 to `n_attributes` - 1.
        n_classes: How many classes there are.
        n_attributes: How many attribute values there are.
        positive: The positive class of a binary view; without it, every class against the rest.

    >>> odds = group_odds([1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 1], n_classes=2, n_attributes=2, positive=1)
    >>> odds.equal_opportunity, odds.true_positive.tolist(), odds.false_positive.tolist()
    (1.0, [[1.0, 0.0]], [[0.0, 0.0]])

    """
    true, predicted = as_labels_and_predictions(labels, predictions, n_classes)
    values = as_ids("attributes", attributes, n_attributes)
    check_lengths(labels=true, attributes=values)
    if positive is not None and not 0 <= positive < n_classes:
        raise InputError(f"positive must be a class from 0 to {n_classes - 1}, got {positive}")
    classes = np.arange(n_classes) if positive is None else np.array([positive])
    hit = true == predicted

    def count(ids: IntArray, of: IntArray) -> IntArray:
        cells = np.bincount(ids * n_attributes + of, minlength=n_classes * n_attributes)
        counts: IntArray = cells.reshape(n_classes, n_attributes)[classes]
        return counts

    n_positive = count(true, values)
    n_negative = np.bincount(values, minlength=n_attributes) - n_positive
    hits = count(true[hit], values[hit])
    alarms = count(predicted, values) - hits
    return GroupOdds(
        classes, accuracies(hits, n_positive), accuracies(alarms, n_negative), n_positive, n_negative
    )


def _range(rates: FloatArray) -> FloatArray:
    gap: FloatArray = rates.max(axis=1) - rates.min(axis=1)
    return gap
