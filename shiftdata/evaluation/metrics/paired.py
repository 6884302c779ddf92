"""Two methods on the same rows: the interval of their difference, and a test of it, both over origins."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shiftdata.data.arrays import (
    IntArray,
    as_codes,
    as_ids,
    as_labels_and_predictions,
    as_predictions,
    check_lengths,
)
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.bootstrap import (
    DEFAULT,
    Interval,
    Resampling,
    described,
    draw_counts,
    draw_origins,
    interval_of,
    worst_of_groups,
)
from shiftdata.evaluation.metrics.chance import binomial
from shiftdata.evaluation.metrics.clusters import Clusters, pairs
from shiftdata.evaluation.metrics.groups import group_accuracy
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import GroupStatistic, accuracies, statistic_of
from shiftdata.stable import rng

#: Rows up to which the paired test is exact.
EXACT = 20_000


@dataclass(frozen=True)
class PairedComparison(Record):
    """A figure of two methods; `difference` is A - B, `only_a` counts the rows that only A has right."""

    statistic: str
    a: float
    b: float
    difference: Interval
    only_a: int
    only_b: int

    def __str__(self) -> str:
        return (
            f"{self.statistic}: A {number(self.a)}, B {number(self.b)}\nA - B {self.difference}\n"
            f"only A right {self.only_a:,}, only B right {self.only_b:,}"
        )


def compare(
    labels: Any,
    a: Any,
    b: Any,
    *,
    groups: Any = None,
    n_groups: int | None = None,
    n_classes: int | None = None,
    origins: Any = None,
    statistic: str | GroupStatistic = "overall",
    resampling: Resampling = DEFAULT,
) -> PairedComparison:
    """Compare the predictions of two methods on the same rows.

    Each replicate of the bootstrap has the outcomes of both methods on the same rows, drawn by group; with
    `origins`, on the same origins. With `groups` any figure over groups can be compared, such as "worst",
    whose interval combines those of both methods; with `n_classes`, unknown classes are refused.

    >>> print(compare([0, 0, 1, 1], [0, 0, 1, 0], [0, 1, 0, 0]))
    overall: A 0.7500, B 0.2500
    A - B 0.5000 [0.0000, 1.0000] (95 %, percentile, by row, 1,000 replicates)
    only A right 2, only B right 0
    """
    figure = statistic_of(statistic)
    true, first = as_labels_and_predictions(labels, a, n_classes)
    second = as_predictions(b, n_classes, name="predictions of B")
    check_lengths(labels=true, b=second)
    ids = _groups(groups, n_groups, len(true))
    outcome = 2 * (first != true) + (second != true)
    outcomes = np.bincount(4 * ids + outcome, minlength=4 * (n_groups or 1)).reshape(-1, 4)
    of_a, of_b = (float(value) for value in _both(figure, outcomes))
    only_a, only_b = outcomes.sum(axis=0).tolist()[1:3]
    if figure.worst and only_a + only_b:
        sides = [
            group_accuracy(true, of, ids, n_groups=len(outcomes), origins=origins) for of in (first, second)
        ]
        apart = _of_worst(*(worst_of_groups(of, figure, resampling) for of in sides))
        return PairedComparison(figure.name, of_a, of_b, apart, only_a, only_b)
    generator = rng(resampling.seed, "metrics", "compare")
    clusters = None
    counted = draw_counts(outcomes, resampling, generator)
    if origins is not None:
        codes = as_codes("origins", origins)[1]
        check_lengths(labels=true, origins=codes)
        clusters = Clusters.of_rows(ids, codes, np.ones(len(ids)), len(outcomes))
        if not clusters.plain:
            # In the order of the pairs of `clusters`, whose own counts are of rows.
            of_pairs = pairs(ids, codes, np.eye(4)[outcome], clusters.groups, clusters.origins)[2]
            counted = draw_origins(clusters, of_pairs, resampling, generator)
    drawn = [np.subtract(*_both(figure, counts)) for counts in counted]
    method = described(clusters, grouped=groups is not None)
    difference = interval_of(of_a - of_b, np.concatenate(drawn), resampling, method)
    return PairedComparison(figure.name, of_a, of_b, difference, only_a, only_b)


def _of_worst(a: Interval, b: Interval) -> Interval:
    """The interval of a difference from those of both sides.

    Each end is as far from the difference as the root of the sum of squares of both sides' reaches that way
    (MOVER: G. Y. Zou and A. Donner, Statistics in Medicine 27, 2008). What pairing gains is left out: the
    worst groups of two methods may be different ones.
    """
    estimate = a.estimate - b.estimate
    low = estimate - math.hypot(a.estimate - a.low, b.high - b.estimate)
    high = estimate + math.hypot(a.high - a.estimate, b.estimate - b.low)
    return replace(a, estimate=estimate, low=low, high=high)


def paired_test(differences: Any) -> float:
    """The two-sided p-value that two methods are equally good, from their difference on each origin.

    A difference is how many rows of an origin only the first method has right, minus those that only the
    second has. If the methods are equally good, each is as likely with the other sign (R. A. Fisher's
    randomization of pairs): where no origin has two rows this is McNemar's exact test (Q. McNemar,
    Psychometrika 12, 1947). Exact up to 20,000 rows; beyond, the normal limit z = sum d / root of sum d^2,
    which is N. A. Obuchowski's test of clustered matched pairs (Statistics in Medicine 17, 1998) with the
    variance under the hypothesis (Z. Yang, X. Sun and J. W. Hardin, Biometrical Journal 52, 2010).

    >>> paired_test([1, 1, 1, 1, 1]), paired_test([5]), paired_test([0, 0])
    (0.0625, 1.0, 1.0)
    """
    array = np.abs(np.asarray(differences, np.int64))
    total, observed = int(array.sum()), abs(int(np.sum(differences)))
    if observed == 0:
        return 1.0
    if total > EXACT:
        return math.erfc(observed / math.sqrt(2 * float((array.astype(np.float64) ** 2).sum())))
    # The sum over origins with a plus, U, has the distribution of the sum over sizes m of m times a binomial;
    # the difference is 2 U - total, and its distribution is symmetric.
    mass = np.ones(1)
    for size, times in zip(*np.unique(array[array > 0], return_counts=True), strict=True):
        spaced = np.zeros(int(size * times) + 1)
        spaced[::size] = binomial(int(times), 0.5)
        mass = np.convolve(mass, spaced)
    return min(1.0, 2 * math.fsum(mass[(total + observed) // 2 :]))


def _groups(groups: Any, n_groups: int | None, rows: int) -> IntArray:
    """The group of each row; without any, all rows are one."""
    if (groups is None) != (n_groups is None):
        raise InputError("give groups together with n_groups, or neither")
    ids = np.zeros(rows, np.int64) if groups is None else as_ids("groups", groups, n_groups)
    check_lengths(labels=np.empty(rows), groups=ids)
    return ids


def _both(figure: GroupStatistic, outcomes: IntArray) -> tuple[Any, Any]:
    """The figure of A and of B from counts whose last axis is both, only A, only B, none."""
    n = outcomes.sum(axis=-1)
    both, only_a, only_b = outcomes[..., 0], outcomes[..., 1], outcomes[..., 2]
    return figure(accuracies(both + only_a, n), n), figure(accuracies(both + only_b, n), n)
