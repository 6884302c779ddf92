"""Minimising a smooth function of many numbers: L-BFGS, as small as it can be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from shiftdata.metrics.arrays import FloatArray

#: A point's value and gradient, as flat arrays.
Objective: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
#: A step, and the change of the gradient along it.
_Memory: TypeAlias = deque[tuple[FloatArray, FloatArray]]


def minimise(
    objective: Objective, start: FloatArray, *, iterations: int = 200, tolerance: float = 1e-5
) -> FloatArray:
    """A minimum near the start: where no part of the gradient is above `tolerance`, or the best found."""
    point, (value, gradient) = start, objective(start)
    memory: _Memory = deque(maxlen=10)
    for _ in range(iterations):
        if np.abs(gradient).max() <= tolerance:
            break
        direction = _direction(gradient, memory)
        slope = float(gradient @ direction)
        step = 1.0 if memory else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        while step > 1e-12:
            tried, (found, bent) = point + step * direction, objective(point + step * direction)
            if found <= value + 1e-4 * step * slope:
                break
            step /= 2
        else:
            break
        # Only a step along which the slope rises says how the function curves.
        if (tried - point) @ (bent - gradient) > 1e-12:
            memory.append((tried - point, bent - gradient))
        point, value, gradient = tried, found, bent
    return point


def _direction(gradient: FloatArray, memory: _Memory) -> FloatArray:
    """Minus the gradient times the inverse curvature that the remembered steps suggest."""
    direction, shares = -gradient, []
    for step, change in reversed(memory):
        share = (step @ direction) / (step @ change)
        direction = direction - share * change
        shares.append(share)
    if memory:
        step, change = memory[-1]
        direction = direction * ((step @ change) / (change @ change))
    for (step, change), share in zip(memory, reversed(shares), strict=True):
        direction = direction + (share - (change @ direction) / (step @ change)) * step
    return direction
