"""Expected calibration error: how far confidence lies from accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from shiftdata.errors import InputError
from shiftdata.metrics.arrays import FloatArray, IntArray, as_ids, as_probabilities, check_lengths
from shiftdata.metrics.records import Record, number, table
from shiftdata.metrics.statistics import accuracies


@dataclass(frozen=True, eq=False)
class CalibrationError(Record):
    """Mean confidence, accuracy and rows of each bin; a bin without rows has nan and n = 0."""

    binning: str
    confidence: FloatArray
    accuracy: FloatArray
    n: IntArray

    derived: ClassVar[tuple[str, ...]] = ("expected", "maximum")

    @property
    def expected(self) -> float:
        """ECE: the gap of accuracy and confidence, the mean over rows. Bins without rows weigh nothing."""
        held = self.n > 0
        return float(self.n[held] @ np.abs(self.accuracy - self.confidence)[held]) / int(self.n.sum())

    @property
    def maximum(self) -> float:
        """MCE: the largest gap of a bin that has rows."""
        return float(np.nanmax(np.abs(self.accuracy - self.confidence)))

    def __str__(self) -> str:
        rows = [
            [str(i), number(confidence), number(accuracy), f"{n:,}"]
            for i, (confidence, accuracy, n) in enumerate(
                zip(self.confidence, self.accuracy, self.n, strict=True)
            )
        ]
        return (
            f"ECE {number(self.expected)}, MCE {number(self.maximum)} (bins of equal {self.binning})\n"
            + table(["bin", "confidence", "accuracy", "n"], rows)
        )


def calibration_error(
    labels: Any, probabilities: Any, *, bins: int = 15, binning: Literal["width", "mass"] = "width"
) -> CalibrationError:
    """The calibration of the predicted class's probability (Guo et al. 2017; SubpopBench reports it).

    Args:
        labels: True class ids.
        probabilities: One probability a class in each row, summing to 1.
        bins: How many bins of confidence.
        binning: Bins of equal `width`, (i/M, (i+1)/M]; or of equal `mass`, each with the same number of rows
            as far as equal confidences, which stay together, allow.

    >>> calibration_error([0, 1], [[0.75, 0.25], [0.5, 0.5]]).expected
    0.375

    """
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}")
    scores = as_probabilities("probabilities", probabilities)
    true = as_ids("labels", labels, scores.shape[1])
    check_lengths(labels=true, probabilities=scores)
    confidence, right = scores.max(axis=1), scores.argmax(axis=1) == true
    if binning == "width":
        edges = np.linspace(0, 1, bins + 1)
        bin_of = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    elif binning == "mass":
        # Rows of lower confidence decide the bin, so that neither ties nor the order of rows matter.
        lower = np.searchsorted(np.sort(confidence), confidence, side="left")
        bin_of = lower * bins // len(confidence)
    else:
        raise InputError(f"unknown binning {binning!r}; known: width, mass")
    n = np.bincount(bin_of, minlength=bins)
    mean_confidence = accuracies(np.bincount(bin_of, confidence, minlength=bins), n)
    return CalibrationError(
        binning, mean_confidence, accuracies(np.bincount(bin_of[right], minlength=bins), n), n
    )
