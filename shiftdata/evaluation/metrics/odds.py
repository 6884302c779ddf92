"""Equal opportunity and equalized odds: how far the rates of a class are apart between nuisances.

A binary predictor has equal opportunity if its true positive rate is the same in each group of people, and
equalized odds if its false positive rate is too (M. Hardt, E. Price and N. Srebro, NeurIPS 2016). Nuisances
are the groups here, and each class is judged against the rest. A gap is the highest rate less the lowest,
over nuisances: 0 is fair, 1 the most unfair. Noise only widens it, most where groups are many and small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from shiftdata.data.arrays import BoolArray, FloatArray, IntArray, as_ids, as_predictions, check_lengths
from shiftdata.evaluation.metrics.groups import Linear
from shiftdata.evaluation.metrics.records import Record
from shiftdata.evaluation.metrics.statistics import accuracies, reach, wilson


class Gap(NamedTuple):
    """The nuisances between which a rate of a class is furthest apart: its true or false positive rate."""

    label: int
    of_true: bool
    high: int
    low: int
    value: float


@dataclass(frozen=True, eq=False)
class ClassRates(Record):
    """The true and false positive rates of each class against the rest, classes x nuisances.

    `positives` and `negatives` are their rows. `expected` are the cells that are compared: a rate without
    rows is nan there, and so is every figure that needs it.
    """

    tpr: FloatArray
    fpr: FloatArray
    positives: IntArray
    negatives: IntArray
    expected: BoolArray

    derived: ClassVar[tuple[str, ...]] = (
        "equal_opportunity", "equal_opportunity_mean", "equalized_odds", "equalized_odds_mean",
    )  # fmt: skip
    omitted: ClassVar[tuple[str, ...]] = ("expected",)

    @classmethod
    def of_rows(
        cls, true: IntArray, predicted: IntArray, nuisance: IntArray, expected: BoolArray
    ) -> ClassRates:
        """Count rows; below 0 a label or a prediction is of no class, and a nuisance is none."""
        shape = expected.shape

        def count(label: IntArray, rows: BoolArray) -> IntArray:
            rows = rows & (label >= 0) & (nuisance >= 0)
            cells = np.ravel_multi_index((label[rows], nuisance[rows]), shape)
            return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.int64)

        right = predicted == true
        positives = count(true, np.ones(len(true), np.bool_))
        negatives = np.bincount(nuisance[nuisance >= 0], minlength=shape[1]).astype(np.int64) - positives
        tpr = accuracies(count(true, right), positives)
        fpr = accuracies(count(predicted, ~right), negatives)
        return cls(tpr, fpr, positives, negatives, expected)

    @property
    def equal_opportunity(self) -> float:
        """The gap of the true positive rate, of the class where it is widest."""
        return self._over_classes(np.max)

    @property
    def equal_opportunity_mean(self) -> float:
        """The mean gap of the true positive rate over classes."""
        return self._over_classes(np.mean)

    @property
    def equalized_odds(self) -> float:
        """The wider gap of both rates, of the class where it is widest."""
        return self._over_classes(np.max, odds=True)

    @property
    def equalized_odds_mean(self) -> float:
        """The mean over classes of the wider gap of both rates."""
        return self._over_classes(np.mean, odds=True)

    def gaps(self, *, odds: bool = False) -> list[Gap]:
        """The gap of each class that two nuisances should have: of the true rate, or the wider of both."""
        found = []
        for label in np.flatnonzero(self.expected.sum(axis=1) > 1).tolist():
            nuisances = np.flatnonzero(self.expected[label])
            both = [
                _gap(label, of_true, nuisances, rates[label])
                for of_true, rates in ((True, self.tpr), (False, self.fpr))[: 1 + odds]
            ]
            undefined = [gap for gap in both if math.isnan(gap.value)]
            found.append(undefined[0] if undefined else max(both, key=lambda gap: gap.value))
        return found

    def _over_classes(self, sum_up: Callable[[list[float]], Any], *, odds: bool = False) -> float:
        """Sum up the gaps of all classes; nan if one is, or if there is none."""
        gaps = [gap.value for gap in self.gaps(odds=odds)]
        return float(sum_up(gaps)) if gaps else math.nan


def _gap(label: int, of_true: bool, nuisances: IntArray, rates: FloatArray) -> Gap:
    # The last of the lowest: where all are equal, high and low are different nuisances all the same.
    high, low = nuisances[rates[nuisances].argmax()], nuisances[::-1][rates[nuisances][::-1].argmin()]
    return Gap(label, of_true, int(high), int(low), float(rates[high] - rates[low]))


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearGap(Linear):
    """The gap of a class, or the mean gap over classes, linearised in the rates between which it lies.

    `independent` is, for each nuisance, the share of its rows that count as independent.
    """

    rates: ClassRates
    independent: FloatArray
    odds: bool
    of_mean: bool

    def interval(self, value: float) -> tuple[float, float]:
        """The 95 % interval of the figure, from simultaneous limits of all rates that it might lie between.

        The nuisances that look furthest apart are so partly by bad luck, which a bootstrap repeats.
        """
        if not math.isfinite(value):
            return math.nan, math.nan
        lows, highs = zip(*map(self._limits, self.rates.gaps()), strict=True)
        low, high = (float(np.mean(ends) if self.of_mean else np.max(ends)) for ends in (lows, highs))
        return low, min(high, 1.0)

    def _limits(self, gap: Gap) -> tuple[float, float]:
        """Return limits of the gap of a class that hold together with those of all classes."""
        rates, cells = self.rates, int(self.rates.expected.sum()) * (1 + self.odds)
        nuisances, ends = np.flatnonzero(rates.expected[gap.label]), []
        kinds = ((rates.tpr, rates.positives), (rates.fpr, rates.negatives))
        for rate, rows in kinds[: 1 + self.odds]:
            p, n = rate[gap.label, nuisances], rows[gap.label, nuisances] * self.independent[nuisances]
            limits = [
                wilson(share * size, size, reach(size, 1 - 0.05 / cells))
                for share, size in zip(p.tolist(), n.tolist(), strict=True)
            ]
            below, above = np.array(limits).T
            ends.append((max(0.0, below.max() - above.min()), above.max() - below.min()))
        low, high = np.max(ends, axis=0).tolist()
        return low, high


def class_rates(
    labels: Any, predictions: Any, nuisances: Any, *, n_classes: int, n_nuisances: int
) -> ClassRates:
    """Compare the rates of each class, against the rest, between nuisances.

    Predictions are class ids, or one row of class scores per example.

    >>> rates = class_rates([0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1],
    ...                     n_classes=2, n_nuisances=2)
    >>> rates.tpr.tolist(), rates.fpr.tolist()
    ([[1.0, 0.5], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.5]])
    >>> rates.equal_opportunity, rates.equal_opportunity_mean, rates.equalized_odds_mean
    (0.5, 0.25, 0.5)
    """
    true, nuisance = as_ids("labels", labels, n_classes), as_ids("nuisances", nuisances, n_nuisances)
    predicted = as_predictions(predictions)
    check_lengths(labels=true, predictions=predicted, nuisances=nuisance)
    predicted = as_ids("predictions", predicted, n_classes)
    return ClassRates.of_rows(true, predicted, nuisance, np.ones((n_classes, n_nuisances), np.bool_))
