"""Concept shift: how often the labelling functions of two domains disagree (NICO++, equations 2 and 5).

f_source and f_target are models fitted on source and on target. Their disagreement is the share of rows that
they label differently, over source rows and over target rows; the smaller and the larger of the two are the
paper's minimum and maximum.

Fits on few rows are not f_source and f_target: their errors add to a small disagreement and take from one
near 1. For two planes whose normals have an angle a, the disagreement of rows without a preferred direction
is a / pi, and independent errors of fits shrink cos(a) by a factor (the attenuation of correlations,
Spearman 1904):

    cos(pi observed) = cos(pi true) x r_source r_target,    cos(pi own) = r^2,

where `own` is the disagreement of two fits on two halves of one side. The interval holds what this gives,
and what the step from half of the rows to all of them gives. On the scale of the cosine the effect of errors
falls as n^-a, and the step leaves 1 / (2^a - 1) of itself to go: a is 2 where planes part the labels, whose
fits err as 1/n, and 1 where labels have noise. How held-out errors fall from half to all says which it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.meters.fits import Linear, choose_penalty, fit_linear
from shiftdata.evaluation.meters.sides import (
    Fold,
    Mask,
    Origins,
    Sides,
    check_fit,
    codes_of,
    feature_sides,
    jackknifed,
    margin,
    sides_of,
)
from shiftdata.evaluation.metrics import Interval
from shiftdata.evaluation.metrics.records import Record, number
from shiftdata.evaluation.metrics.statistics import wilson

#: What the step from half of the rows to all leaves to go where planes part the labels.
_PARTED = 1 / 3
#: Above, two fits of one side agree too little to tell their errors from the shift.
_LARGEST_OWN = 0.25

#: f_source and f_target.
Pair: TypeAlias = tuple[Linear, Linear]


@dataclass(frozen=True, kw_only=True)
class ConceptShift(Record):
    """The disagreement of two labelling functions over rows of either side, 0 (the same) to 1.

    On features, the value is that of the logistic regressions to which fits on more and more rows of the two
    domains tend: the labelling functions themselves where planes part the labels. Estimate and interval
    allow for the rows that were drawn, and for what fits on as few rows get wrong. The interval covered the
    true value in 90 % of simulations or more where planes part the labels, and where labels have noise and
    densities are equal; with both noise and a shift of densities in 65 % or more
    (scripts/bench/meters_coverage.py).

    `floor` is the disagreement of two fits on halves of one side, the mean of both sides: a value near it may
    be no shift. `labels` are those that both sides have, the only ones that were used; `left_out` counts the
    rows of others. For predictions of your own models there is no floor and no label.
    """

    on_source: Interval
    on_target: Interval
    n_source: int
    n_target: int
    floor: float = float("nan")
    labels: tuple[Hashable, ...] = ()
    left_out: int = 0
    fit: str = "given"

    derived: ClassVar[tuple[str, ...]] = ("minimum", "maximum")

    @property
    def minimum(self) -> Interval:
        """The smaller one; the ends of its interval are the smaller ends."""
        return _each(min, self.on_source, self.on_target)

    @property
    def maximum(self) -> Interval:
        return _each(max, self.on_source, self.on_target)

    def __str__(self) -> str:
        floor = f"\ntwo fits of one side {number(self.floor)}" if np.isfinite(self.floor) else ""
        return f"concept shift min {self.minimum}\nconcept shift max {self.maximum}{floor}"


def concept_shift(
    on_source: tuple[Any, Any], on_target: tuple[Any, Any], *, origins: Origins | None = None
) -> ConceptShift:
    """The concept shift of two models, from the labels (ids or names) that they give to rows of both sides.

    Either pair is what f_source and f_target predict for rows that neither was fitted on. The intervals are
    for these two models; what they got wrong for want of rows is not seen.
    """
    at_source, at_target = _differ("on_source", on_source), _differ("on_target", on_target)
    sides = sides_of(len(at_source), len(at_target), origins)
    disagreement = np.concatenate([at_source, at_target])
    return ConceptShift(
        on_source=share(disagreement, ~sides.target, sides.origins),
        on_target=share(disagreement, sides.target, sides.origins),
        n_source=sides.n_source,
        n_target=sides.n_target,
    )


def concept_shift_on_features(
    source: Any,
    source_labels: Any,
    target: Any,
    target_labels: Any,
    *,
    origins: Origins | None = None,
    penalty: float | None = None,
    seed: int = 0,
) -> ConceptShift:
    """The concept shift of logistic regressions on frozen features, fitted on source and on target.

    Both are fitted on nine groups of ten, and measured on the tenth of both sides. Rows whose label (an id or
    a name) the other side lacks are left out. Labels with noise, and densities that lie askew to the planes,
    move logistic regressions off the planes of least error, with any number of rows: the value is then
    theirs. Without a penalty that of each side is chosen by the likelihood of held-out rows; other arguments
    are those of `covariate_shift`.
    """
    return Fits(source, source_labels, target, target_labels, origins, penalty, seed).record()


class Fits:
    """How often pairs of fits disagree on rows that they have not seen, on the source and on the target.

    Rows whose label is on both sides are at `mask`. `wrong` says where f_source misses the label of a row.
    `_all` is for fits on nine groups, `_half` for fits on half of their rows, `_own` for the two halves of
    one side: of the source, then of the target.
    """

    def __init__(
        self,
        source: Any,
        source_labels: Any,
        target: Any,
        target_labels: Any,
        origins: Origins | None,
        penalty: float | None,
        seed: int,
    ) -> None:
        check_fit(penalty=penalty)
        rows, every = feature_sides(source, target, origins)
        names, codes = codes_of("labels", source_labels, target_labels, every.n_source, every.n_target)
        shared = np.intersect1d(codes[~every.target], codes[every.target])
        if len(shared) < 2:
            raise InputError(
                f"{len(shared)} labels are on both sides: concept shift needs at least 2; "
                "use the same names for labels on both"
            )
        self.mask: Mask = np.isin(codes, shared)
        self.labels = tuple(names[code] for code in shared)
        self.rows, self.sides, self._codes = rows[self.mask], every.where(self.mask), codes[self.mask]
        self._seed = seed
        self._cross_fit(self.rows, self.sides, penalty)

    def _cross_fit(self, rows: FloatArray, sides: Sides, penalty: float | None) -> None:
        folds = list(sides.folds(self._seed))
        self.penalties = [self._penalty(side, folds) if penalty is None else penalty for side in self._both()]
        all_rows, half, own = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros((2, len(rows)))
        self.wrong: Mask = np.zeros(len(rows), np.bool_)
        errors = np.zeros(2)  # of fits on half and on all, on rows of their own side
        replicates: list[tuple[float, float]] = []
        self._starts: list[Linear | None] = [None, None]
        for fold in folds:
            seen, unseen = rows[fold.seen], rows[fold.unseen]
            of_target, codes = sides.target[fold.unseen], self._codes[fold.unseen]
            pair = self._pair(fold.seen)
            f, g = (fit(unseen) for fit in pair)
            halves = [[fit(unseen) for fit in self._pair(half_of)] for half_of in fold.halves]
            (f_first, g_first), (f_second, g_second) = halves
            all_rows[fold.unseen], self.wrong[fold.unseen] = f != g, f != codes
            half[fold.unseen] = np.mean(
                [a != b for a in (f_first, f_second) for b in (g_first, g_second)], axis=0
            )
            own[:, fold.unseen] = f_first != f_second, g_first != g_second
            replicates.append(sides.where(fold.seen).means(pair[0](seen) != pair[1](seen)))
            errors += [
                sum(int((np.where(of_target, b, a) != codes).sum()) for a, b in halves) / 2,
                int((np.where(of_target, g, f) != codes).sum()),
            ]
        self._all, self._half, self._differ = sides.means(all_rows), sides.means(half), all_rows
        self._own = [sides.means(values) for values in own]
        self._replicates = replicates
        # Errors that a step divides by q fall as n^-log2(q); the cosine sees their squares.
        power = float(np.clip(2 * np.log2(errors[0] / errors[1]), 1, 2)) if errors.all() else 2.0
        self._left = 1 / (2**power - 1)

    def record(self) -> ConceptShift:
        """What was found."""
        return ConceptShift(
            on_source=self.interval(0),
            on_target=self.interval(1),
            n_source=self.sides.n_source,
            n_target=self.sides.n_target,
            floor=(self._own[0][0] + self._own[1][1]) / 2,
            labels=self.labels,
            left_out=int((~self.mask).sum()),
            fit=f"logistic regressions, penalties {self.penalties[0]:g} and {self.penalties[1]:g}, 0-1 loss",
        )

    def interval(self, side: int) -> Interval:
        """The disagreement over rows of one side."""
        at_half, at_all = (math.cos(math.pi * values[side]) for values in (self._half, self._all))
        steps = _PARTED, (_PARTED + self._left) / 2, self._left
        least, estimate, most = (_share(at_all + step * (at_all - at_half)) for step in steps)
        ends = [least, most]
        own = [values[side] for values in self._own]
        if max(own) < _LARGEST_OWN:
            ends.append(_share(at_half / math.sqrt(math.prod(math.cos(math.pi * value) for value in own))))
        rows = share(self._differ, self._both()[side], self.sides.origins)
        # Ten replicates estimate a spread badly: it is not below that of the rows alone.
        spare = max(margin([replicate[side] for replicate in self._replicates]), (rows.high - rows.low) / 2)
        return jackknifed(estimate, ends, spare, 0, self.sides, self._seed)

    def _both(self) -> tuple[Mask, Mask]:
        return ~self.sides.target, self.sides.target

    def _penalty(self, side: Mask, folds: Sequence[Fold]) -> float:
        folds_of_side = [Fold(seen=fold.seen[side], unseen=fold.unseen[side]) for fold in folds[:2]]
        return choose_penalty(self.rows[side], self._codes[side], folds_of_side)

    def _pair(self, mask: Mask) -> Pair:
        """Fits on rows of either side, each from the weights of the one before."""
        pair = [
            fit_linear(self.rows[mask & side], self._codes[mask & side], penalty, start)
            for side, penalty, start in zip(self._both(), self.penalties, self._starts, strict=True)
        ]
        self._starts = [*pair]
        return pair[0], pair[1]


def share(yes: NDArray[Any], side: Mask, origins: IntArray | None) -> Interval:
    """The share of rows of a side with Wilson's interval; rows that share origins count as fewer."""
    values = yes[side].astype(np.float64)
    n, mean = float(len(values)), float(values.mean())
    if origins is not None:
        names, place = np.unique(origins[side], return_inverse=True)
        # The variance of a ratio of sums over origins, as that of a share of n independent rows.
        variance = float((np.bincount(place, values - mean) ** 2).sum()) / n**2
        n = min(n, mean * (1 - mean) / variance) if variance > 0 else float(len(names))
    method = "Wilson" if origins is None else "Wilson, by origin"
    return Interval(mean, *wilson(mean * n, n), 0.95, 0, 0, 0, method)


def _share(cosine: float) -> float:
    return math.acos(min(1.0, max(-1.0, cosine))) / math.pi


def _each(figure: Callable[..., float], first: Interval, second: Interval) -> Interval:
    """An interval whose estimate and ends are figures of those of two."""
    estimate = figure(first.estimate, second.estimate)
    return replace(
        first, estimate=estimate, low=figure(first.low, second.low), high=figure(first.high, second.high)
    )


def _differ(name: str, answers: tuple[Any, Any]) -> Mask:
    n = len(np.asarray(answers[0]))
    _, codes = codes_of(name, *answers, n, n)
    differ: Mask = codes[:n] != codes[n:]
    return differ
