"""Sets of rows that are chosen once: the smallest cell's size from every cell, or a drawn label marginal."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, IntArray, one_of
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling.cells import Cells
from shiftdata.evaluation.sampling.samplers import FixedRows, Names
from shiftdata.stable import rng

#: How alpha becomes the parameter of the Dirichlet: alpha * p (RLSbench, section 3.1), or the released
#: code's alpha * K * p with K classes, which shifts far less.
DirichletVariant: TypeAlias = Literal["paper", "code"]


class Subsampled(FixedRows):
    """Equally many rows of every cell, without replacement: SUBY and SUBG of BalancingGroups.

    The smallest cell decides how many, unless `per_cell` asks for fewer. The rows are chosen once; those
    for a smaller `per_cell` are part of those for a larger one.
    """

    def __init__(
        self, cells: Cells, *, kind: str, per_cell: int | None = None, seed: int = 0, names: Names = ()
    ) -> None:
        smallest = int(cells.counts.min())
        kept = smallest if per_cell is None else per_cell
        if not 1 <= kept <= smallest:
            raise InputError(
                f"per_cell must be from 1 to the {smallest} rows of the smallest label or group, got {kept}"
            )
        generator = rng(seed, *names, "resampling", kind, "subset")
        rows = cells.first(np.full(len(cells), kept), generator)
        super().__init__(rows, kind=kind, seed=seed, names=names, dropped=cells.dropped)
        self.per_cell = kept


class DirichletTarget(FixedRows):
    """Rows whose labels follow a given or drawn marginal: RLSbench's simulated label shift (section 3.1).

    Without replacement, n = floor(min_k n_k / P_k) and label k keeps floor(n P_k) rows: a label with a tiny
    share keeps none, see `counts`. With replacement, as many labels as there are rows are drawn from the
    marginal, then a row for each. The rows are chosen once. For training and test rows of one target, draw
    once: give the first sampler's `marginal` to the second.

    `marginal` and `counts` have one number for each of `label_ids`.
    """

    def __init__(
        self,
        cells: Cells,
        *,
        alpha: float | None = None,
        variant: DirichletVariant = "paper",
        marginal: ArrayLike | None = None,
        replacement: bool = False,
        seed: int = 0,
        names: Names = (),
    ) -> None:
        if marginal is not None and alpha is not None:
            raise InputError("give either alpha, to draw a marginal, or marginal, to use one; got both")
        self.label_ids = cells.expected
        self._kept = np.isin(cells.expected, cells.ids)
        own = np.zeros(len(self.label_ids))
        own[self._kept] = cells.counts / cells.n_rows
        if marginal is None:
            self.marginal = dirichlet_marginal(own, alpha, variant=variant, seed=seed, names=names)
        else:
            self.marginal = _as_marginal(marginal, len(own))
        generator = rng(seed, *names, "resampling", "dirichlet", "subset")
        if marginal is None and alpha is None:
            takes, rows = cells.counts, cells.order
        elif replacement:
            takes = generator.multinomial(cells.n_rows, self._shares())
            rows = cells.draw(np.repeat(np.arange(len(cells)), takes), generator)
        else:
            takes = largest_counts(cells.counts, self._shares())
            if not takes.sum():
                raise InputError(
                    "no row is left: a label with few rows has a large share of the marginal. Pass "
                    "replacement=True, or draw with another seed or a larger alpha"
                )
            rows = cells.first(takes, generator)
        self.counts = np.zeros(len(own), dtype=np.int64)
        self.counts[self._kept] = takes
        super().__init__(rows, kind="dirichlet", seed=seed, names=names, dropped=cells.dropped)

    def _shares(self) -> FloatArray:
        """The shares of the labels that have rows; labels that were dropped leave theirs to the others."""
        shares: FloatArray = self.marginal[self._kept]
        if shares.sum() == 0:
            raise InputError("no label with a share in the marginal has a row: give another marginal")
        shares /= shares.sum()
        return shares


def dirichlet_marginal(
    base: ArrayLike,
    alpha: float | None,
    *,
    variant: DirichletVariant = "paper",
    seed: int = 0,
    names: Names = (),
) -> FloatArray:
    """Draw a label marginal around `base`; the smaller alpha, the further away. None keeps `base`.

    A label that is not in `base` stays out.

    >>> dirichlet_marginal([0.5, 0.5, 0], 1.0, seed=1).round(3).tolist()
    [0.009, 0.991, 0.0]
    """
    one_of("variant", variant, ("paper", "code"))
    p = _as_marginal(base, np.size(base))
    if alpha is None:
        return p
    if not 0 < alpha < np.inf:
        raise InputError(f"alpha must be above 0 and finite, or None for no shift; got {alpha}")
    strength = alpha * (len(p) if variant == "code" else 1)
    drawn = np.zeros(len(p))
    drawn[p > 0] = rng(seed, *names, "resampling", "dirichlet", "marginal").dirichlet(strength * p[p > 0])
    return drawn


def largest_counts(counts: IntArray, shares: FloatArray) -> IntArray:
    """How many rows of each label to keep for exactly these shares, up to rounding down."""
    positive = shares > 0
    tolerance = 1e-9  # 100 * 0.29 is 28.999..., and means 29
    with np.errstate(over="ignore"):  # a share as small as numbers get bounds nothing
        total = np.floor((counts[positive] / shares[positive]).min() + tolerance)
    takes: IntArray = np.minimum(np.floor(total * shares + tolerance).astype(np.int64), counts)
    return takes


def _as_marginal(values: ArrayLike, n_labels: int) -> FloatArray:
    marginal: FloatArray = np.array(values, dtype=np.float64)
    if marginal.shape != (n_labels,):
        raise InputError(
            f"the marginal must have a share for each of {n_labels} labels, got the shape {marginal.shape}: "
            "pass label_ids=... to name the labels"
        )
    if not (marginal >= 0).all() or abs(marginal.sum() - 1) > 1e-6:
        raise InputError(f"the shares of a marginal must be at least 0 and sum to 1, got {marginal.tolist()}")
    marginal /= marginal.sum()
    return marginal
