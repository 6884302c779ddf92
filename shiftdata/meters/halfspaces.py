"""Pairs of half-spaces that disagree on the source as often, and on the target as seldom, as they can.

With h1, h2 = +1 or -1 on the two sides of a plane each, they disagree where h1 h2 = -1, so the difference of
their disagreement on source and target is that of the means of -h1 h2 / 2. The search takes tanh for the
sign, which makes it smooth; what is measured later is the sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shiftdata.meters.descent import minimise
from shiftdata.meters.sides import Mask
from shiftdata.metrics.arrays import FloatArray

#: Components whose variance is below this share of the largest are rounding.
_RELATIVE_FLOOR = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class HalfSpaces:
    """Two half-spaces: plane i is where (rows - centre) @ weights[:, i] + bias[i] = 0."""

    centre: FloatArray
    weights: FloatArray
    bias: FloatArray

    def disagree(self, rows: FloatArray) -> Mask:
        """Whether the two say different things of each row."""
        inside = (rows - self.centre) @ self.weights + self.bias > 0
        apart: Mask = inside[:, 0] != inside[:, 1]
        return apart


def fit_half_spaces(rows: FloatArray, target: Mask, *, components: int, penalty: float) -> HalfSpaces:
    """The best of the minima near a few starts, each of which solves one kind of shift at once.

    The rows are first whitened along their largest principal components, both sides weighing the same.
    """
    shares = np.where(target, 1 / target.sum(), 1 / (~target).sum())
    centre, whiten = _whitening(rows, shares / 2, components)
    white = (rows - centre) @ whiten
    signed = np.where(target, -shares, shares)  # sum over source minus sum over target, of means
    padded = np.column_stack([white, np.ones(len(white))])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        planes = flat.reshape(-1, 2)
        soft = np.tanh(padded @ planes)
        held = np.concatenate([planes[:-1], np.zeros((1, 2))])  # the bias is free
        value = float(signed @ soft.prod(axis=1)) / 2 + penalty / 2 * float((held**2).sum())
        pull = signed[:, None] / 2 * soft[:, ::-1] * (1 - soft**2)
        return value, (padded.T @ pull + penalty * held).ravel()

    found = [minimise(loss, start.ravel()) for start in _starts(white, signed)]
    best = min(found, key=lambda flat: loss(flat)[0]).reshape(-1, 2)
    return HalfSpaces(centre=centre, weights=whiten @ best[:-1], bias=best[-1])


def _whitening(rows: FloatArray, shares: FloatArray, components: int) -> tuple[FloatArray, FloatArray]:
    """The weighted mean, and the matrix that takes centred rows to uncorrelated ones of variance 1."""
    centre = shares @ rows
    centred = rows - centre
    values, vectors = np.linalg.eigh((centred * shares[:, None]).T @ centred)
    values, vectors = values[::-1][:components], vectors[:, ::-1][:, :components]
    kept = values > max(_RELATIVE_FLOOR * float(values[0]), np.finfo(np.float64).tiny)
    return centre, vectors[:, kept] / np.sqrt(values[kept])


def _starts(white: FloatArray, signed: FloatArray) -> list[FloatArray]:
    """Planes to start from, one row a feature and the bias last.

    Half: the plane between the two means, and one that has everything on one side, as a classifier of
    domains. Bands: inside and outside along the directions whose variance grows and shrinks most. Quadrants:
    the two directions together, which sees a change of correlation.
    """
    d = white.shape[1]
    between = signed @ white
    spread = (white * signed[:, None]).T @ white
    shrinks, grows = np.linalg.eigh(spread)[1].T[[-1, 0]]
    half = np.zeros((d + 1, 2))
    half[:-1, 0], half[-1, 1] = between / max(float(np.linalg.norm(between)), 1e-12), -1

    def planes(first: FloatArray, second: FloatArray, bias: tuple[float, float]) -> FloatArray:
        return np.concatenate([np.column_stack([first, second]), np.array([bias])])

    return [
        half,
        planes(shrinks, -shrinks, (1, 1)),
        planes(grows, grows, (1, -1)),
        planes(shrinks + grows, grows - shrinks, (0, 0)),
    ]
