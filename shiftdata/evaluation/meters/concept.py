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
falls as n^-a, and the step leaves 1 / (2^a - 1) of itself to go: a is 2 where planes separate the labels,
whose fits err as 1/n, and 1 where labels have noise: the fall of held-out errors from half to all tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray, IntArray
from shiftdata.errors import InputError
from shiftdata.evaluation.meters.fits import Linear, choose_penalty, fit_linear
from shiftdata.evaluation.meters.sides import (
    Mask,
    Origins,
    Sides,
    codes_of,
    feature_sides,
    jackknifed,
    margin,
)
from shiftdata.evaluation.metrics import Interval
from shiftdata.evaluation.metrics.records import number
from shiftdata.evaluation.metrics.statistics import wilson

#: What the step from half of the rows to all leaves to go where planes separate the labels.
_SEPARABLE = 1 / 3
#: Above, two fits of one side agree too little to tell their errors from the shift.
_LARGEST_OWN = 0.25


@dataclass(frozen=True, kw_only=True)
class ConceptShift:
    """The disagreement of two labelling functions over rows of either side, 0 (the same) to 1.

    The value is for the logistic regressions to which fits on more and more rows tend.

    `floor` is the mean disagreement of two fits on halves of one side: a value near it may be no shift.
    `labels` are those that both sides have, the only ones used; `left_out` counts the rows of other labels.
    """

    on_source: Interval
    on_target: Interval
    n_source: int
    n_target: int
    floor: float
    labels: tuple[Hashable, ...]
    left_out: int
    fit: str

    @property
    def minimum(self) -> Interval:
        """The smaller of the two; each end of its interval is the smaller of two ends."""
        return self._each(min)

    @property
    def maximum(self) -> Interval:
        return self._each(max)

    def _each(self, choose: Callable[..., float]) -> Interval:
        a, b = self.on_source, self.on_target
        ends = choose(a.low, b.low), choose(a.high, b.high)
        return replace(a, estimate=choose(a.estimate, b.estimate), low=ends[0], high=ends[1])

    def __str__(self) -> str:
        floor = f"two fits of one side {number(self.floor)}"
        return f"concept shift min {self.minimum}\nconcept shift max {self.maximum}\n{floor}"


def concept_shift_on_features(
    source: Any,
    source_labels: Any,
    target: Any,
    target_labels: Any,
    *,
    origins: Origins | None = None,
    seed: int = 0,
) -> ConceptShift:
    """The concept shift of logistic regressions on frozen features, one fitted on each side.

    Both are fitted on nine groups of ten, and measured on the tenth of both sides. Rows whose label (an id or
    a name) the other side lacks are left out. The penalty of each side is the one of largest held-out
    likelihood; `origins` and `seed` are as for `covariate_shift`.
    """
    return compare(source, source_labels, target, target_labels, origins, seed)[0]


def compare(
    source: Any, source_labels: Any, target: Any, target_labels: Any, origins: Origins | None, seed: int
) -> tuple[ConceptShift, Mask, FloatArray, Sides, Mask]:
    """Measure concept shift on the rows whose label both sides have.

    Returns it with the mask of these rows, the rows, their sides, and a mask of the labels f_source misses.
    """
    rows, sides = feature_sides(source, target, origins)
    names, codes = codes_of("labels", source_labels, target_labels, *sides.counts)
    shared = np.intersect1d(codes[~sides.target], codes[sides.target])
    if len(shared) < 2:
        raise InputError(
            f"{len(shared)} labels are on both sides, at least 2 are needed: use the same names on both"
        )
    mask = np.isin(codes, shared)
    rows, sides, codes = rows[mask], sides.where(mask), codes[mask]
    fits = _cross_fit(rows, codes, sides, seed)
    n_source, n_target = sides.counts
    shift = ConceptShift(
        on_source=fits.interval(0, sides),
        on_target=fits.interval(1, sides),
        n_source=n_source,
        n_target=n_target,
        floor=(fits.own[0][0] + fits.own[1][1]) / 2,
        labels=tuple(names[code] for code in shared),
        left_out=int((~mask).sum()),
        fit=f"logistic regressions, penalties {fits.penalties[0]:g} and {fits.penalties[1]:g}, 0-1 loss",
    )
    return shift, mask, rows, sides, fits.wrong


class _Fits(NamedTuple):
    """Fits on nine groups of ten, measured on the tenth; pairs are means over the source and the target."""

    penalties: list[float]
    disagree: FloatArray  # of each row: f_source and f_target differ
    wrong: Mask  # of each row: f_source misses its label
    half: tuple[float, float]  # disagreement of fits on half of the rows
    own: list[tuple[float, float]]  # of two fits on halves of the source; of the target
    replicates: list[tuple[float, float]]
    remaining: float  # what the step from half to all leaves to go, as a share of the step

    def interval(self, side: int, sides: Sides) -> Interval:
        means = self.half[side], sides.means(self.disagree)[side]
        at_half, at_all = (math.cos(math.pi * mean) for mean in means)
        steps = _SEPARABLE, (_SEPARABLE + self.remaining) / 2, self.remaining
        least, estimate, most = (_angle(at_all + step * (at_all - at_half)) for step in steps)
        ends = [least, most]
        own = [means[side] for means in self.own]
        if max(own) < _LARGEST_OWN:
            ends.append(_angle(at_half / math.sqrt(math.prod(math.cos(math.pi * mean) for mean in own))))
        rows = share(self.disagree, sides.masks[side], sides.origins)
        # Ten replicates estimate a spread badly: it is not below that of the rows alone.
        spare = max(margin([replicate[side] for replicate in self.replicates]), (rows.high - rows.low) / 2)
        return jackknifed(estimate, ends, spare, 0, sides)


def _cross_fit(rows: FloatArray, codes: IntArray, sides: Sides, seed: int) -> _Fits:
    folds = list(sides.folds(seed))
    penalties = [choose_penalty(rows, codes, side, folds) for side in sides.masks]
    disagree, half, own = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros((2, len(rows)))
    wrong: Mask = np.zeros(len(rows), np.bool_)
    errors = np.zeros(2)  # of fits on half and on all, on rows of their own side
    replicates: list[tuple[float, float]] = []
    starts: list[Linear | None] = [None, None]

    def pair(mask: Mask) -> list[Linear]:
        """Fit on rows of either side, each from the weights of the fit before."""
        fits = [
            fit_linear(rows[mask & side], codes[mask & side], penalty, start)
            for side, penalty, start in zip(sides.masks, penalties, starts, strict=True)
        ]
        starts[:] = fits
        return fits

    for fold in folds:
        unseen, of_target, labels = rows[fold.unseen], sides.target[fold.unseen], codes[fold.unseen]
        fits = pair(fold.seen)
        f, g = (fit(unseen) for fit in fits)
        halves = [[fit(unseen) for fit in pair(half_of)] for half_of in fold.halves]
        (f_first, g_first), (f_second, g_second) = halves
        disagree[fold.unseen], wrong[fold.unseen] = f != g, f != labels
        pairs = [a != b for a in (f_first, f_second) for b in (g_first, g_second)]
        half[fold.unseen] = np.mean(pairs, axis=0)
        own[:, fold.unseen] = f_first != f_second, g_first != g_second
        replicates.append(sides.where(fold.seen).means(fits[0](rows[fold.seen]) != fits[1](rows[fold.seen])))
        misses = [(np.where(of_target, b, a) != labels).sum() for a, b in (*halves, (f, g))]
        errors += (misses[0] + misses[1]) / 2, misses[2]
    # Errors that a step divides by q fall as n^-log2(q); the cosine sees their squares.
    power = float(np.clip(2 * np.log2(errors[0] / errors[1]), 1, 2)) if errors.all() else 2.0
    own_means = [sides.means(values) for values in own]
    return _Fits(penalties, disagree, wrong, sides.means(half), own_means, replicates, 1 / (2**power - 1))


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
    return Interval(mean, *wilson(mean * n, n), method)


def _angle(cosine: float) -> float:
    return math.acos(min(1.0, max(-1.0, cosine))) / math.pi


def disagreement(name: str, predictions: Sequence[Any]) -> Mask:
    """Mask the rows for which two sequences of labels differ."""
    n = len(np.asarray(predictions[0]))
    first, second = predictions
    codes = codes_of(name, first, second, n, n)[1]
    return np.asarray(codes[:n] != codes[n:])
