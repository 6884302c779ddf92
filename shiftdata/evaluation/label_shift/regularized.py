"""The optimisation of RLLS, to a proven gap, in numpy alone.

Minimise |C w - m| + rho |w - 1| over w >= 0, and sum p w = 1 where a prior p is given; norms not squared.
Both terms are convex, so the best w also minimises |C w - m|^2 + kappa |w - 1|^2 for one kappa: that at which
kappa |w - 1| = rho |C w - m|. The left side grows with kappa faster than the right, so halving finds it. If
rho is small enough, the best w fits exactly and kappa is 0; then a small kappa and multipliers reach it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray
from shiftdata.evaluation.label_shift.evidence import EstimationError

#: The range of kappa relative to the largest curvature: outside, it is lost in double precision.
SMALLEST, LARGEST = 1e-10, 1e10


class Solution(NamedTuple):
    """Weights, their objective, and an upper bound of its distance from the minimum."""

    weights: FloatArray
    objective: float
    gap: float


def solve(
    confusion: FloatArray,
    observed: FloatArray,
    rho: float,
    prior: FloatArray | None = None,
    *,
    tolerance: float = 1e-9,
) -> Solution:
    """Minimise |confusion w - observed| + rho |w - 1| over w >= 0 (and sum prior w = 1)."""
    curvature = confusion.T @ confusion
    scale = max(float(np.linalg.norm(curvature, 2)), float(np.finfo(float).tiny))

    def solution(weights: FloatArray, pull: FloatArray, kappa: float) -> Solution:
        """Bound the objective of the w that minimises |C w - m'|^2 + kappa |w - 1|^2; `pull` is C w - m'.

        `pull` and kappa (w - 1), scaled until at most 1 and rho long, are feasible in the dual problem, and
        what they are worth there is a lower bound of the objective: the rest is the gap. (With u and v
        for the two, |u| <= 1 and |v| <= rho, the objective is at least u.(C w - m) + v.(w - 1) everywhere.
        Under the constraints this linear function is least at `weights`: their optimality conditions.)
        """
        misfit, distance = confusion @ weights - observed, weights - 1
        longest = max(_norm(pull), kappa * _norm(distance) / rho, float(np.finfo(float).tiny))
        bound = float(pull @ misfit + kappa * distance @ distance) / longest
        objective = _norm(misfit) + rho * _norm(distance)
        return Solution(weights, objective, gap=max(objective - bound, 0.0))

    # The w nearest to 1 among those that fit exactly, by the method of multipliers: the residual is added to
    # the right-hand side until it vanishes, or until the multipliers are so long that an exact fit cannot be
    # the best.
    kappa, weights, right_side = SMALLEST * scale, np.ones(len(observed)), observed
    solutions: list[Solution] = []
    # Where no constraint binds, a round divides the residual along a singular value s by 1 + s^2 / kappa: few
    # rounds are needed, and 39 are the limit.
    for _ in range(39):
        weights = ridge(curvature, confusion.T @ right_side, kappa, prior, weights)
        fitted = confusion @ weights
        solutions.append(solution(weights, fitted - right_side, kappa))
        too_long = rho * _norm(fitted - right_side) > kappa * _norm(weights - 1)
        if solutions[-1].gap <= tolerance * solutions[-1].objective or too_long:
            break
        right_side = right_side + observed - fitted
    best = min(solutions, key=lambda solution: solution.gap)
    low, high = np.log(SMALLEST * scale), np.log(LARGEST * scale)
    weights = best.weights
    while best.gap > tolerance * best.objective and high - low > 1e-12:
        kappa = float(np.exp((low + high) / 2))
        weights = ridge(curvature, confusion.T @ observed, kappa, prior, weights)
        misfit = confusion @ weights - observed
        best = min(best, solution(weights, misfit, kappa), key=lambda solution: solution.gap)
        if kappa * _norm(weights - 1) < rho * _norm(misfit):
            low = np.log(kappa)
        else:
            high = np.log(kappa)
    return best


def ridge(
    curvature: FloatArray, pull: FloatArray, kappa: float, prior: FloatArray | None, start: FloatArray
) -> FloatArray:
    """Minimise |C w - m|^2 + kappa |w - 1|^2 over w >= 0 (and sum p w = 1).

    `curvature` is C'C, `pull` is C'm, and `start` a feasible point. The method is that of active sets: the
    objective falls at each step, the constraints always hold, and it ends, for the objective is strictly
    convex.
    """
    matrix, aim = curvature + kappa * np.eye(len(pull)), pull + kappa
    slack = 1e-12 * float(np.abs(matrix).max())
    weights, free = start.copy(), start > 0
    for _ in range(20 * len(aim) + 100):
        minimiser, gradient = _with_fixed(matrix, aim, prior, free)
        falling = np.flatnonzero(free & (minimiser < 0))
        # Go towards the minimiser until the first weight reaches 0, at the share w / (w - minimiser); fix it.
        if falling.size:
            steps = weights[falling] / (weights[falling] - minimiser[falling])
            weights = np.maximum(weights + steps.min() * (minimiser - weights), 0)
            first = falling[steps.argmin()]
            weights[first], free[first] = 0, False
            continue
        weights = minimiser
        if free.all() or gradient[~free].min() >= -slack:
            return weights
        # The objective falls along a weight that is fixed at 0: free the one with the steepest fall.
        free[np.where(free, np.inf, gradient).argmin()] = True
    raise EstimationError("the quadratic problem of RLLS did not end: use bbse or mlls")


def _with_fixed(
    matrix: FloatArray, aim: FloatArray, prior: FloatArray | None, free: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """The minimiser with the weights that are not free at 0, and the gradient of the objective there."""
    minimiser = np.zeros(len(aim))
    within = matrix[np.ix_(free, free)]
    if prior is None:
        minimiser[free] = np.linalg.solve(within, aim[free])
        return minimiser, matrix @ minimiser - aim
    # Lagrange: M w = aim + multiplier p on the free weights, and p w = 1 gives the multiplier.
    both = np.linalg.solve(within, np.stack([aim[free], prior[free]], axis=1))
    multiplier = (1 - prior[free] @ both[:, 0]) / (prior[free] @ both[:, 1])
    minimiser[free] = both[:, 0] + multiplier * both[:, 1]
    return minimiser, matrix @ minimiser - aim - multiplier * prior


def _norm(vector: FloatArray) -> float:
    return float(np.linalg.norm(vector))
