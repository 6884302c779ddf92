"""Two sets of rows, a source and a target: checked, dealt to ten groups, their figures with intervals.

What is fitted on nine groups is measured on the tenth. Rows of one origin lie in the same group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray, IntArray, as_codes, as_floats
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import Interval, Resampling, bootstrap_rows
from shiftdata.stable import rng

#: Fewer rows on a side leave too few in a half to fit anything, or to measure it.
FEWEST_ROWS = 20
GROUPS = 10
#: The 97.5 % quantile of Student's t with GROUPS - 1 degrees of freedom.
STUDENT = 2.2622

Mask: TypeAlias = NDArray[np.bool_]
#: One name a row for the source and for the target.
Origins: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sides:
    """Which rows are of the target, the others of the source; and the origin of each, if they share any."""

    target: Mask
    origins: IntArray | None

    @property
    def n_source(self) -> int:
        return int((~self.target).sum())

    @property
    def n_target(self) -> int:
        return int(self.target.sum())

    @property
    def fewest(self) -> int:
        """Rows, or origins, of the side that has fewer."""
        counts = self.n_source, self.n_target
        if self.origins is not None:
            counts = len(np.unique(self.origins[~self.target])), len(np.unique(self.origins[self.target]))
        return min(counts)

    def where(self, rows: Mask) -> Sides:
        """Some of the rows."""
        origins = None if self.origins is None else self.origins[rows]
        return Sides(target=self.target[rows], origins=origins)

    def folds(self, seed: int) -> Iterator[Fold]:
        """Leave out each group once."""
        group, half = self._dealt(seed, "groups", GROUPS), self.half(seed)
        for left_out in range(GROUPS):
            seen = group != left_out
            yield Fold(seen=seen, unseen=~seen, halves=(seen & half, seen & ~half))

    def half(self, seed: int) -> Mask:
        """Half of the rows of either side, or of the origins."""
        half: Mask = self._dealt(seed, "halves", 2) == 0
        for rows in (half, ~half):
            self.where(rows).need_rows(FEWEST_ROWS // 2, "half")
        return half

    def need_rows(self, fewest: int, part: str) -> None:
        """Refuse too few rows on either side."""
        for name, n in (("source", self.n_source), ("target", self.n_target)):
            if n < fewest:
                raise InputError(
                    f"{n} rows in a {part} of the {name}: at least {fewest} are needed; give more rows, "
                    "or, where many share an origin, more origins"
                )

    def means(self, values: NDArray[Any]) -> tuple[float, float]:
        """The mean of some values, one a row, over the source and over the target; nan without rows."""
        source, target = values[~self.target], values[self.target]
        return float(source.mean()) if len(source) else np.nan, float(target.mean()) if len(
            target
        ) else np.nan

    def interval(self, values: FloatArray, figure: Callable[[float, float], float], seed: int) -> Interval:
        """A figure of the two means with its bootstrap interval: rows are drawn, or origins."""

        def statistic(rows: IntArray) -> float:
            return figure(*Sides(target=self.target[rows], origins=None).means(values[rows]))

        strata = self.target if self.origins is None else None
        how = Resampling(seed=seed)
        return bootstrap_rows(statistic, len(values), how, strata=strata, clusters=self.origins)

    def _dealt(self, seed: int, name: str, parts: int) -> IntArray:
        """The part of each row, of parts of equal size."""

        def deal(n: int) -> IntArray:
            # Always the same key: rows at the same place of two sides, which may be pairs, stay together.
            return np.asarray(rng(seed, "meters", name).permutation(n) % parts, np.int64)

        if self.origins is not None:
            return deal(int(self.origins.max()) + 1)[self.origins]
        dealt = np.empty(len(self.target), dtype=np.int64)
        dealt[~self.target], dealt[self.target] = deal(self.n_source), deal(self.n_target)
        return dealt


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """Rows to fit on, two halves of them, and the group to measure on."""

    seen: Mask
    unseen: Mask
    halves: tuple[Mask, ...] = ()


def margin(replicates: Sequence[float]) -> float:
    """Half the width of a 95 % interval, by the jackknife that leaves out each group once.

    Variance: (g - 1) / g x the sum of squared deviations of the g replicates. Each is a fit of its own, so
    that the spread of fits counts as well as that of the rows that they are measured on.
    """
    return STUDENT * math.sqrt((GROUPS - 1) * float(np.var(replicates)))


def jackknifed(
    estimate: float, ends: Sequence[float], spare: float, least: float, sides: Sides, seed: int
) -> Interval:
    """The interval around all of `ends`, values that the figure may have but for the rows that were drawn."""
    # Where all rows say the same: what no row of n says is true of up to 3 / n, at 95 %.
    spare = max(spare, 3 / sides.fewest)
    low, high = (float(np.clip(end, least, 1)) for end in (min(ends) - spare, max(ends) + spare))
    by = "row" if sides.origins is None else "origin"
    return Interval(estimate, low, high, 0.95, GROUPS, seed, 0, f"grouped jackknife, by {by}")


def sides_of(n_source: int, n_target: int, origins: Origins | None) -> Sides:
    """The sides of source rows followed by target rows."""
    codes = None if origins is None else codes_of("origins", *origins, n_source, n_target)[1]
    sides = Sides(target=np.arange(n_source + n_target) >= n_source, origins=codes)
    sides.need_rows(FEWEST_ROWS, "set")
    return sides


def feature_sides(
    source: Any, target: Any, origins: Origins | None, *, symmetric: bool = False
) -> tuple[FloatArray, Sides]:
    """All rows and their sides; for a `symmetric` figure in one order, so that swapping changes no digit."""
    first, second = as_floats("source", source, ndim=2), as_floats("target", target, ndim=2)
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"source has {first.shape[1]} features a row and target {second.shape[1]}: give both the same, "
            "from one network or one table"
        )
    # Checked before the sides change places: a message names them as they were given.
    sides = sides_of(len(first), len(second), origins)
    if symmetric and (len(second), second.sum(axis=0).tolist()) < (len(first), first.sum(axis=0).tolist()):
        sides = sides_of(len(second), len(first), None if origins is None else origins[::-1])
        first, second = second, first
    return np.concatenate([first, second]), sides


def check_fit(*, penalty: float | None, components: int = 1) -> None:
    """Refuse settings that nothing can be fitted with."""
    if penalty is not None and not (0 <= penalty < np.inf):
        raise InputError(f"penalty must be a number of at least 0, got {penalty}")
    if components < 1:
        raise InputError(f"components must be at least 1, got {components}")


def codes_of(
    name: str, first: Any, second: Any, n_first: int, n_second: int
) -> tuple[tuple[Hashable, ...], IntArray]:
    """The sorted names in two sequences, and the position of each row's name."""
    names = [np.asarray(values).tolist() for values in (first, second)]
    given = [len(some) for some in names]
    if given != [n_first, n_second]:
        raise InputError(
            f"{name}: {given[0]:,} and {given[1]:,} values for {n_first:,} and {n_second:,} rows; "
            "give one for each row"
        )
    return as_codes(name, names[0] + names[1])
