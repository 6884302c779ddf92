"""Two sets of rows, source and target: checked, dealt to ten groups, figures with jackknife intervals."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray, IntArray, as_codes, as_floats
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics import Interval
from shiftdata.stable import rng

#: Fewer rows on a side leave too few in a half to fit anything, or to measure it.
FEWEST_ROWS = 20
GROUPS = 10
#: The 97.5 % quantile of Student's t with GROUPS - 1 degrees of freedom.
STUDENT = 2.2622

Mask: TypeAlias = NDArray[np.bool_]
#: The origin of each source row, and of each target row.
Origins: TypeAlias = tuple[Any, Any]


class Fold(NamedTuple):
    """Rows to fit on, two halves of them, and the group to measure on."""

    seen: Mask
    unseen: Mask
    halves: tuple[Mask, Mask]


class Sides(NamedTuple):
    """A mask of the target rows, which follow the source rows, and the origins of all rows if given."""

    target: Mask
    origins: IntArray | None

    @property
    def masks(self) -> tuple[Mask, Mask]:
        return ~self.target, self.target

    @property
    def counts(self) -> tuple[int, int]:
        return int((~self.target).sum()), int(self.target.sum())

    def where(self, rows: Mask) -> Sides:
        origins = None if self.origins is None else self.origins[rows]
        return Sides(target=self.target[rows], origins=origins)

    def folds(self, seed: int) -> Iterator[Fold]:
        """Leave out each group once; rows of one origin lie in one group, and in one half."""
        group, half = self._dealt(seed, "groups", GROUPS), self._dealt(seed, "halves", 2) == 0
        for rows in (half, ~half):
            self.where(rows).need_rows(FEWEST_ROWS // 2, "half")
        for left_out in range(GROUPS):
            seen = group != left_out
            yield Fold(seen=seen, unseen=~seen, halves=(seen & half, seen & ~half))

    def need_rows(self, fewest: int, part: str) -> None:
        for name, n in zip(("source", "target"), self.counts, strict=True):
            if n < fewest:
                raise InputError(
                    f"{n} rows in a {part} of the {name}, {fewest} are needed: give more rows or more origins"
                )

    def means(self, values: NDArray[Any]) -> tuple[float, float]:
        """Return the mean of row values over the source and over the target."""
        return float(values[~self.target].mean()), float(values[self.target].mean())

    def _dealt(self, seed: int, name: str, parts: int) -> IntArray:
        """Deal the rows to parts of equal size; return the part of each."""

        def deal(n: int) -> IntArray:
            # The key names no side: rows at one place of both sides, which may be pairs, stay together.
            return np.asarray(rng(seed, "meters", name).permutation(n) % parts, np.int64)

        if self.origins is not None:
            return deal(int(self.origins.max()) + 1)[self.origins]
        return np.concatenate([deal(n) for n in self.counts])


def margin(replicates: Sequence[float]) -> float:
    """Return half the width of a 95 % interval, by the jackknife that leaves out each group once.

    Variance: (g - 1) / g x the sum of squared deviations of the g replicates. Each replicate is a fit of its
    own, so the spread of fits counts as well as that of the rows they are measured on.
    """
    return STUDENT * math.sqrt((GROUPS - 1) * float(np.var(replicates)))


def jackknifed(estimate: float, ends: Sequence[float], spare: float, least: float, sides: Sides) -> Interval:
    """Widen the range of `ends`, values that the figure may have apart from sampling, by `spare`."""
    units = np.arange(len(sides.target)) if sides.origins is None else sides.origins
    fewest = min(len(np.unique(units[mask])) for mask in sides.masks)
    # Where all rows agree: an event seen in none of n rows has a rate of up to 3 / n, at 95 %.
    spare = max(spare, 3 / fewest)
    low, high = (float(np.clip(end, least, 1)) for end in (min(ends) - spare, max(ends) + spare))
    by = "row" if sides.origins is None else "origin"
    return Interval(estimate, low, high, f"grouped jackknife, by {by}")


def sides_of(n_source: int, n_target: int, origins: Origins | None) -> Sides:
    """Return the sides of source rows followed by target rows."""
    codes = None if origins is None else codes_of("origins", *origins, n_source, n_target)[1]
    sides = Sides(target=np.arange(n_source + n_target) >= n_source, origins=codes)
    sides.need_rows(FEWEST_ROWS, "set")
    return sides


def feature_sides(
    source: Any, target: Any, origins: Origins | None, *, symmetric: bool = False
) -> tuple[FloatArray, Sides]:
    """Return all rows and their sides; in a fixed order if `symmetric`, so that swapping changes no digit."""
    first, second = as_floats("source", source, ndim=2), as_floats("target", target, ndim=2)
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"source has {first.shape[1]} features per row and target {second.shape[1]}: give both the same"
        )
    # Checked before the sides are swapped: a message names them as they were given.
    sides = sides_of(len(first), len(second), origins)
    if symmetric and (len(second), second.sum(axis=0).tolist()) < (len(first), first.sum(axis=0).tolist()):
        sides = sides_of(len(second), len(first), None if origins is None else origins[::-1])
        first, second = second, first
    return np.concatenate([first, second]), sides


def codes_of(
    name: str, first: Any, second: Any, n_first: int, n_second: int
) -> tuple[tuple[Hashable, ...], IntArray]:
    """Return the sorted names in two sequences, and the position of each row's name."""
    names = [np.asarray(values).tolist() for values in (first, second)]
    if [len(values) for values in names] != [n_first, n_second]:
        raise InputError(
            f"{name}: {len(names[0]):,} and {len(names[1]):,} values for {n_first:,} and {n_second:,} rows"
        )
    return as_codes(name, names[0] + names[1])
