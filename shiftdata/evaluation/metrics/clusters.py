"""Errors by origin: all rows of one origin are one observation.

A figure F that depends on the accuracies p_g of groups has, to first order, the influence
I_o = sum over groups of dF/dp_g * d_go of origin o, and its squared standard error is the sum of I_o^2 over
origins: the cluster-robust ("sandwich") variance of a ratio estimator (K.-Y. Liang and S. L. Zeger,
Biometrika 73, 1986). Within a group, d_go = w_go (x_go - p_g) / sqrt(1 - 2 w_go + sum of w_go^2), where w_go
is the origin's share of the group's rows and x_go its accuracy there. The root makes the variance unbiased
where origins are equally hard, also for few origins of unequal weights (bias-reduced linearization: R. M.
Bell and D. F. McCaffrey, Survey Methodology 28, 2002); of C equal origins its square is (C - 1) / C. A group
of one origin says nothing of its own error: in figures over several groups its d_go is x_go minus the
accuracy of all rows, which rather overstates it (collapsed strata: K. M. Wolter, Introduction to Variance
Estimation, 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray, IntArray, by_code_and_key


@dataclass(frozen=True, eq=False)
class Clusters:
    """The number of rows `n` and of right rows `right`, one entry per pair of group and origin.

    `groups` and `origins` bound their ids. `plain`: every row is an origin of its own, and right or wrong, so
    errors are binomial.
    """

    group: IntArray
    origin: IntArray
    n: IntArray
    right: FloatArray
    groups: int
    origins: int
    plain: bool = False

    @classmethod
    def of_rows(cls, group: IntArray, origin: IntArray, right: FloatArray, groups: int) -> Clusters:
        """Count rows, which may repeat; `right` may be any number to average."""
        origins = int(origin.max(initial=-1)) + 1
        once = np.ones(len(group), np.int64)
        if len(origin) and np.bincount(origin).max() == 1:
            return cls(group, origin, once, right, groups, origins, plain=bool(np.isin(right, (0, 1)).all()))
        group, origin, (n, right) = pairs(group, origin, [once, right], groups, origins)
        return cls(group, origin, n.astype(np.int64, copy=False), right, groups, origins)

    @classmethod
    def unknown(cls, groups: int) -> Clusters:
        """No pairs, as in an evaluation that was read back: errors are nan."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, np.zeros(0), groups, 0)

    def merge(self, place: IntArray, groups: int) -> Clusters:
        """Merge groups: `place` has the number of the group that each becomes part of."""
        group = place[self.group]
        if self.plain or not len(group):
            return replace(self, group=group, groups=groups)
        group, origin, (n, right) = pairs(group, self.origin, [self.n, self.right], groups, self.origins)
        return Clusters(group, origin, n.astype(np.int64, copy=False), right, groups, self.origins)

    @cached_property
    def count(self) -> IntArray:
        """The number of origins of each group."""
        return np.bincount(self.group, minlength=self.groups).astype(np.int64)

    @cached_property
    def effective(self) -> FloatArray:
        """Kish's effective size of each group: the number of origins of equal weight that vary as much."""
        with np.errstate(divide="ignore"):
            return np.where(self.count > 0, 1 / self._squares, 0.0)

    @cached_property
    def deviations(self) -> FloatArray:
        """The part d_go of each pair; nan where all groups together have a single origin."""
        mean = np.bincount(self.group, self.right, self.groups) / np.maximum(self._rows, 1)
        leverage = np.maximum(1 - 2 * self._share + self._squares[self.group], 0)
        off = (self.right - self.n * mean[self.group]) / self._rows[self.group]
        several = np.count_nonzero(np.bincount(self.origin)) > 1
        overall = self.right.sum() / self.n.sum() if several else np.nan
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(
                self.count[self.group] > 1, off / np.sqrt(leverage), self.right / self.n - overall
            )

    @cached_property
    def sem(self) -> FloatArray:
        """The standard error of each group's accuracy; nan with fewer than two origins."""
        squares = np.bincount(self.group, self.deviations**2, self.groups)
        return np.where(self.count > 1, np.sqrt(squares), np.nan)

    def influence(self, coefficients: FloatArray) -> FloatArray:
        """The influence of each origin on a figure with these derivatives by the groups' accuracies."""
        used = coefficients[self.group] != 0
        parts = coefficients[self.group[used]] * self.deviations[used]
        if (self.count[coefficients != 0] == 0).any():
            return np.full(self.origins, np.nan)
        return np.asarray(np.bincount(self.origin[used], parts, self.origins), np.float64)

    def weights(self, coefficients: FloatArray) -> FloatArray:
        """The weight of each origin in such a figure; 0 if it does not depend on it."""
        parts = np.abs(coefficients)[self.group] * self._share
        return np.asarray(np.bincount(self.origin, parts, self.origins), np.float64)

    @cached_property
    def _rows(self) -> IntArray:
        return np.bincount(self.group, self.n, self.groups).astype(np.int64)

    @cached_property
    def _share(self) -> FloatArray:
        return np.asarray(self.n / self._rows[self.group])

    @cached_property
    def _squares(self) -> FloatArray:
        return np.asarray(np.bincount(self.group, self._share**2, self.groups), np.float64)


def pairs(
    group: IntArray, origin: IntArray, columns: Sequence[NDArray[Any]], groups: int, origins: int
) -> tuple[IntArray, IntArray, list[NDArray[Any]]]:
    """Add up rows that share group and origin: the sorted pairs, and the sums of each column."""
    if groups * origins <= 4 * len(group):  # a table of all pairs is faster than sorting
        code = group.astype(np.int64) * max(1, origins) + origin
        pair = np.flatnonzero(np.bincount(code, minlength=groups * origins))
        sums = [np.bincount(code, column, groups * origins)[pair] for column in columns]
        return *np.divmod(pair, max(1, origins)), sums
    order = by_code_and_key(group, origin, groups)[0]
    group, origin, *sums = (values[order] for values in (group, origin, *columns))
    begins = np.append(True, (group[1:] != group[:-1]) | (origin[1:] != origin[:-1]))[: len(order)]
    if not begins.all():
        place, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
        sums = [np.bincount(place, column, len(first)) for column in sums]
        group, origin = group[first], origin[first]
    return group, origin, sums
