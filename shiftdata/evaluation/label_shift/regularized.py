"""The optimisation of RLLS, to a proven gap, in numpy alone.

Minimise |C w - m| + rho |w - 1| over w >= 0, and sum p w = 1 where a prior p is given; norms not squared.
Both terms are convex, so the best w also minimises |C w - m|^2 + kappa |w - 1|^2 for one kappa: that at which
kappa |w - 1| = rho |C w - m|. The left side grows with kappa faster than the right, so halving finds it. If
rho is small enough, the best w fits exactly and kappa is 0; then a small kappa and multipliers reach it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import FloatArray
from shiftdata.evaluation.label_shift.evidence import NotConvergedError

#: The range of kappa relative to the largest curvature: outside, it is lost in double precision.
SMALLEST, LARGEST = 1e-10, 1e10


@dataclass(frozen=True, eq=False)
class Solution:
    """The weights, an upper bound of their distance from the minimum, and the number of steps."""

    weights: FloatArray
    objective: float
    gap: float
    iterations: int


@dataclass(frozen=True, eq=False)
class _Problem:
    confusion: FloatArray
    observed: FloatArray
    rho: float
    prior: FloatArray | None

    def solution(self, weights: FloatArray, pull: FloatArray, kappa: float, iterations: int) -> Solution:
        """The record of the w that minimises |C w - m'|^2 + kappa |w - 1|^2, where `pull` is C w - m'.

        `pull` and kappa (w - 1), scaled until at most 1 and rho long, are feasible in the dual problem, and
        what they are worth there is a lower bound of the objective: the rest is the gap.
        """
        misfit, distance = self.confusion @ weights - self.observed, weights - 1
        longest = max(_norm(pull), kappa * _norm(distance) / self.rho, float(np.finfo(float).tiny))
        bound = float(pull @ misfit + kappa * distance @ distance) / longest
        objective = _norm(misfit) + self.rho * _norm(distance)
        gap = max(objective - bound, 0.0)
        return Solution(weights, objective, gap, iterations)


def solve(
    confusion: FloatArray,
    observed: FloatArray,
    rho: float,
    prior: FloatArray | None = None,
    *,
    tolerance: float = 1e-9,
) -> Solution:
    """Minimise |confusion w - observed| + rho |w - 1| over w >= 0 (and sum prior w = 1)."""
    problem = _Problem(confusion, observed, rho, prior)
    curvature = confusion.T @ confusion
    scale = max(float(np.linalg.norm(curvature, 2)), float(np.finfo(float).tiny))
    best = _fitted(problem, curvature, SMALLEST * scale, tolerance)
    low, high = np.log(SMALLEST * scale), np.log(LARGEST * scale)
    weights, steps = best.weights, best.iterations
    while best.gap > tolerance * best.objective and high - low > 1e-12:
        steps += 1
        kappa = float(np.exp((low + high) / 2))
        weights = ridge(curvature, confusion.T @ observed, kappa, prior, weights)
        misfit = confusion @ weights - observed
        now = problem.solution(weights, misfit, kappa, steps)
        best = min(best, now, key=lambda solution: solution.gap)
        if kappa * _norm(weights - 1) < rho * _norm(misfit):
            low = np.log(kappa)
        else:
            high = np.log(kappa)
    return best


def _fitted(problem: _Problem, curvature: FloatArray, kappa: float, tolerance: float) -> Solution:
    """The w nearest to 1 among those that fit exactly, by the method of multipliers.

    The residual is added to the right-hand side until it vanishes, or until the multipliers are so long that
    an exact fit cannot be the best.
    """
    weights, wanted = np.ones(len(problem.observed)), problem.observed
    solutions: list[Solution] = []
    for step in range(1, 40):
        weights = ridge(curvature, problem.confusion.T @ wanted, kappa, problem.prior, weights)
        fitted = problem.confusion @ weights
        now = problem.solution(weights, fitted - wanted, kappa, step)
        solutions.append(now)
        too_long = problem.rho * _norm(fitted - wanted) > kappa * _norm(weights - 1)
        if now.gap <= tolerance * now.objective or too_long:
            break
        wanted = wanted + problem.observed - fitted
    return min(solutions, key=lambda solution: solution.gap)


def ridge(
    curvature: FloatArray, pull: FloatArray, kappa: float, prior: FloatArray | None, start: FloatArray
) -> FloatArray:
    """Minimise |C w - m|^2 + kappa |w - 1|^2 over w >= 0 (and sum p w = 1).

    `curvature` is C'C, `pull` is C'm, and `start` a feasible point. First all weights that would fall below 0
    are fixed at 0 together, and those with a negative slope are freed together: mostly that ends in a few
    steps. If not, one at a time, which always ends, for the objective is strictly convex.
    """
    matrix, aim = curvature + kappa * np.eye(len(pull)), pull + kappa
    free = start > 0
    for _ in range(30):
        goal, slope = _with_fixed(matrix, aim, prior, free)
        wanted = np.where(free, goal, -slope) > 0
        if (wanted == free).all():
            return goal
        if not wanted.any():
            break
        free = wanted
    return _one_by_one(matrix, aim, prior, start)


def _one_by_one(
    matrix: FloatArray, aim: FloatArray, prior: FloatArray | None, start: FloatArray
) -> FloatArray:
    """Minimise by active sets: the objective falls at each step, and the constraints always hold."""
    slack = 1e-12 * float(np.abs(matrix).max())
    weights, free = start.copy(), start > 0
    for _ in range(20 * len(aim) + 100):
        goal, slope = _with_fixed(matrix, aim, prior, free)
        falling = np.flatnonzero(free & (goal < 0))
        if falling.size:
            steps = weights[falling] / (weights[falling] - goal[falling])
            weights = np.maximum(weights + steps.min() * (goal - weights), 0)
            first = falling[steps.argmin()]
            weights[first], free[first] = 0, False
            continue
        weights = goal
        if free.all() or slope[~free].min() >= -slack:
            return weights
        free[np.where(free, np.inf, slope).argmin()] = True
    raise NotConvergedError("the quadratic problem of RLLS did not end: pass another rho")


def _with_fixed(
    matrix: FloatArray, aim: FloatArray, prior: FloatArray | None, free: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """The minimiser with the weights that are not free at 0, and the slope of the objective there."""
    goal = np.zeros(len(aim))
    within = matrix[np.ix_(free, free)]
    if prior is None:
        goal[free] = np.linalg.solve(within, aim[free])
        return goal, matrix @ goal - aim
    both = np.linalg.solve(within, np.stack([aim[free], prior[free]], axis=1))
    multiplier = (1 - prior[free] @ both[:, 0]) / (prior[free] @ both[:, 1])
    goal[free] = both[:, 0] + multiplier * both[:, 1]
    return goal, matrix @ goal - aim - multiplier * prior


def _norm(vector: FloatArray) -> float:
    return float(np.linalg.norm(vector))
