"""Samplers of rows: reweighted draws, and sets of rows that are chosen once."""

from __future__ import annotations

from typing import Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from shiftdata.data.arrays import FloatArray, IntArray, one_of
from shiftdata.data.loading.order import FixedRows, Keys, Names, RowSampler
from shiftdata.errors import InputError
from shiftdata.evaluation.sampling.cells import Cells
from shiftdata.stable import rng


class Reweighted(RowSampler):
    """Rows drawn with replacement so that every cell comes equally often, whatever its size.

    A row's weight is 1 / (rows in its cell) up to a factor, as in RWY, RWG (BalancingGroups), WILDS's loader
    that is uniform over groups, DomainBed's class-balanced one and RLSbench's RS. For target data RS takes a
    classifier's predictions as labels ("pseudo-balanced"): make another sampler for other predictions. An
    epoch is as long as the data.
    """

    def __init__(self, cells: Cells, *, kind: str, **keys: Unpack[Keys]) -> None:
        super().__init__(kind, cells.n_rows, **keys)
        self.cells = cells

    @property
    def weights(self) -> FloatArray:
        """The weight of each row, n / (cells * rows in its cell): 1 on average."""
        cells, weights = self.cells, np.empty(self.cells.n_rows)
        weights[cells.order] = np.repeat(cells.n_rows / (len(cells) * cells.counts), cells.counts)
        return weights

    def rows_of(self, epoch: int) -> IntArray:
        generator = self._rng("rows", epoch)
        return self.cells.draw(generator.integers(len(self.cells), size=self.total), generator)


class Subsampled(FixedRows):
    """Equally many rows of every cell, without replacement: SUBY and SUBG of BalancingGroups.

    The smallest cell decides how many. The rows are chosen once.
    """

    def __init__(self, cells: Cells, *, kind: str, seed: int = 0, names: Names = ()) -> None:
        generator = rng(seed, *names, "resampling", kind, "subset")
        rows = cells.first(int(cells.counts.min()), generator)
        super().__init__(rows, kind=kind, seed=seed, names=names)


def dirichlet_marginal(
    base: ArrayLike,
    alpha: float | None,
    *,
    variant: Literal["paper", "code"] = "paper",
    seed: int = 0,
    names: Names = (),
) -> FloatArray:
    """Draw a label marginal around `base`; the smaller alpha, the further away. None keeps `base`.

    The parameter of the Dirichlet is alpha * p (RLSbench, section 3.1), or alpha * K * p with K classes as
    the released code has it, which shifts far less. A label that is not in `base` stays out.

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
    """Count the rows of each label to keep for exactly these shares, up to rounding down."""
    positive = shares > 0
    tolerance = 1e-9  # 100 * 0.29 is 28.999..., and means 29
    with np.errstate(over="ignore"):  # a share as small as floats get bounds nothing
        total = np.floor((counts[positive] / shares[positive]).min() + tolerance)
    takes: IntArray = np.minimum(np.floor(total * shares + tolerance).astype(np.int64), counts)
    return takes


def _as_marginal(values: ArrayLike, n_labels: int) -> FloatArray:
    marginal: FloatArray = np.array(values, dtype=np.float64)
    if marginal.shape != (n_labels,):
        raise InputError(
            f"the marginal must have a share for each of {n_labels} labels, got the shape {marginal.shape}"
        )
    if not (marginal >= 0).all() or abs(marginal.sum() - 1) > 1e-6:
        raise InputError(f"the shares of a marginal must be at least 0 and sum to 1, got {marginal.tolist()}")
    marginal /= marginal.sum()
    return marginal
