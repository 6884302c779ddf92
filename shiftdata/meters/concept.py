"""Concept shift: how often the labelling functions of two domains disagree (NICO++, equations 2 and 5).

f_source and f_target are models fitted on source and on target. Their disagreement is the share of rows that
they label differently, over source rows and over target rows; the smaller and the larger of the two are the
paper's minimum and maximum. Two fits on rows of one distribution disagree too: compare a value with the
`floor`, not with 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftdata.errors import InputError
from shiftdata.meters.fits import fit_linear
from shiftdata.meters.sides import Fold, Mask, Origins, Sides, check_fit, codes_of, feature_sides, sides_of
from shiftdata.metrics import Interval
from shiftdata.metrics.arrays import FloatArray, IntArray
from shiftdata.metrics.records import Record, number
from shiftdata.stable import rng


@dataclass(frozen=True, kw_only=True)
class ConceptShift(Record):
    """The smaller and the larger disagreement of two labelling functions, 0 (the same) to 1.

    `floor` is what the same fits give, the mean of both directions, when the rows are dealt to the two sides
    at random: about what one distribution gives. It is not a bound: a mixture of two domains may be harder to
    fit than either. `labels` are those that both sides have, the only ones that were used; `left_out` counts
    the rows of others. For predictions of your own models there is no floor and no label.
    """

    minimum: Interval
    maximum: Interval
    on_source: float
    on_target: float
    n_source: int
    n_target: int
    floor: float = float("nan")
    labels: tuple[Hashable, ...] = ()
    left_out: int = 0
    fit: str = "given"

    def __str__(self) -> str:
        floor = f"\nwithout a shift {number(self.floor)}" if np.isfinite(self.floor) else ""
        return f"concept shift min {self.minimum}\nconcept shift max {self.maximum}{floor}"


def concept_shift(
    on_source: tuple[Any, Any], on_target: tuple[Any, Any], *, origins: Origins | None = None, seed: int = 0
) -> ConceptShift:
    """The concept shift of two models, from the labels (ids or names) that they give to rows of both sides.

    Either pair is what f_source and f_target predict for rows that neither was fitted on.
    """
    at_source, at_target = _differ("on_source", on_source), _differ("on_target", on_target)
    sides = sides_of(len(at_source), len(at_target), origins)
    return _record(sides, np.concatenate([at_source, at_target]).astype(np.float64), seed)


def concept_shift_on_features(
    source: Any,
    source_labels: Any,
    target: Any,
    target_labels: Any,
    *,
    origins: Origins | None = None,
    penalty: float = 0.1,
    repeats: int = 2,
    seed: int = 0,
) -> ConceptShift:
    """The concept shift of logistic regressions on frozen features, fitted on source and on target.

    Both are fitted on one half of their own side, and measured on the other halves of both. Rows whose label
    (an id or a name) the other side lacks are left out. Other arguments are those of `covariate_shift`.
    """
    check_fit(penalty=penalty, repeats=repeats)
    rows, every = feature_sides(source, target, origins)
    names, codes = codes_of("labels", source_labels, target_labels, every.n_source, every.n_target)
    shared = np.intersect1d(codes[~every.target], codes[every.target])
    if len(shared) < 2:
        raise InputError(
            f"{len(shared)} labels are on both sides: concept shift needs at least 2; "
            "use the same names for labels on both"
        )
    kept = np.isin(codes, shared)
    rows, codes, sides = rows[kept], codes[kept], every.where(kept)
    folds = list(sides.folds(seed, repeats))
    disagreement = _cross_fitted(rows, codes, sides.target, folds, penalty)
    dealt = _dealt(sides, seed)
    floor = _cross_fitted(rows, codes, dealt, folds, penalty)
    return _record(
        sides,
        disagreement,
        seed,
        floor=float(np.mean(Sides(target=dealt, origins=None).means(floor))),
        labels=tuple(names[code] for code in shared),
        left_out=int((~kept).sum()),
        fit=f"logistic regressions, penalty {penalty:g}, 0-1 loss, {repeats} x 2 halves",
    )


def _cross_fitted(
    rows: FloatArray, codes: IntArray, target: Mask, folds: Sequence[Fold], penalty: float
) -> FloatArray:
    """For each row, how often the two functions disagree on it when it was not fitted on."""
    disagreement = np.zeros(len(rows))
    for fit, unseen in folds:
        f_source, f_target = (
            fit_linear(rows[fit & side], codes[fit & side], penalty=penalty) for side in (~target, target)
        )
        disagreement[unseen] += f_source(rows[unseen]) != f_target(rows[unseen])
    return disagreement * 2 / len(folds)


def _dealt(sides: Sides, seed: int) -> Mask:
    """Sides at random; what one side has of an origin stays together, whether or not the other has some."""
    origins = np.arange(len(sides.target)) if sides.origins is None else sides.origins
    blocks, block_of = np.unique(2 * origins + sides.target, return_inverse=True)
    dealt: Mask = rng(seed, "meters", "floor").permutation(blocks % 2 == 1)[block_of]
    return dealt


def _record(sides: Sides, disagreement: FloatArray, seed: int, **about: Any) -> ConceptShift:
    on_source, on_target = sides.means(disagreement)
    return ConceptShift(
        minimum=sides.interval(disagreement, min, seed),
        maximum=sides.interval(disagreement, max, seed),
        on_source=on_source,
        on_target=on_target,
        n_source=sides.n_source,
        n_target=sides.n_target,
        **about,
    )


def _differ(name: str, answers: tuple[Any, Any]) -> Mask:
    n = len(np.asarray(answers[0]))
    _, codes = codes_of(name, *answers, n, n)
    differ: Mask = codes[:n] != codes[n:]
    return differ
