"""Fields of numbers to be coloured: coordinates, smooth noise, cells, warps."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Field: TypeAlias = NDArray[np.float64]

SIDE = 256  # of a finished style picture
FINE = 512  # drawn at twice the size, then halved: edges come out smooth


def grid(angle: float = 0.0, side: int = FINE) -> tuple[Field, Field]:
    """Coordinates (x, y) of every pixel in about [-0.5, 0.5], turned by an angle in radians."""
    axis = (np.arange(side) + 0.5) / side - 0.5
    x, y = np.meshgrid(axis, axis)
    return x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)


def smooth_noise(rng: np.random.Generator, cells: int, side: int = FINE) -> Field:
    """Random heights in [0, 1] on a lattice of cells x cells, joined smoothly."""
    lattice = rng.random((cells + 1, cells + 1))
    at = np.linspace(0, cells, side, endpoint=False)
    low = at.astype(np.int64)
    part = at - low
    part = part * part * (3 - 2 * part)
    rows = lattice[low] * (1 - part)[:, np.newaxis] + lattice[low + 1] * part[:, np.newaxis]
    return np.asarray(rows[:, low] * (1 - part) + rows[:, low + 1] * part, dtype=np.float64)


def cloud(rng: np.random.Generator, cells: int, octaves: int = 4, side: int = FINE) -> Field:
    """Fractal noise stretched to [0, 1]: each octave twice as fine and half as high."""
    total = np.zeros((side, side))
    for octave in range(octaves):
        total += smooth_noise(rng, cells << octave, side) / (1 << octave)
    return stretched(total)


def stretched(values: Field) -> Field:
    """The same field with its lowest value at 0 and its highest at 1."""
    low, high = values.min(), values.max()
    return np.asarray((values - low) / max(high - low, 1e-9), dtype=np.float64)


def warp(rng: np.random.Generator, cells: int, amount: float) -> tuple[Field, Field]:
    """Two smooth displacements within [-amount, amount], for bending coordinates."""
    return (smooth_noise(rng, cells) * 2 - 1) * amount, (smooth_noise(rng, cells) * 2 - 1) * amount


class Cells(NamedTuple):
    """For every pixel: the nearest point's number, the way from it, its distance; the second's distance."""

    number: NDArray[np.int64]
    dx: Field
    dy: Field
    first: Field
    second: Field


def cells(rng: np.random.Generator, columns: int, x: Field, y: Field, looseness: float = 0.9) -> Cells:
    """Voronoi cells of columns x columns points, each near its place in a lattice, repeated over the plane.

    Only the nine lattice places round a pixel are looked at; with a looseness of at most 1 that is exact but
    for rare far corners, and the cost does not grow with the number of points.
    """
    shift = rng.uniform(-0.5, 0.5, (2, columns, columns)) * looseness
    column, row = np.floor(x * columns).astype(np.int64), np.floor(y * columns).astype(np.int64)
    zero, far = np.zeros_like(x), np.full_like(x, np.inf)
    best = Cells(np.zeros_like(column), zero, zero, far, far)
    for down, across in np.ndindex(3, 3):
        i, j = column + across - 1, row + down - 1
        at = (j % columns, i % columns)
        dx, dy = x - (i + 0.5 + shift[0][at]) / columns, y - (j + 0.5 + shift[1][at]) / columns
        away = np.hypot(dx, dy)
        closer = away < best.first
        best = Cells(
            np.where(closer, at[0] * columns + at[1], best.number),
            np.where(closer, dx, best.dx),
            np.where(closer, dy, best.dy),
            np.where(closer, away, best.first),
            np.where(closer, best.first, np.minimum(best.second, away)),
        )
    return best


def finished(image: Image.Image) -> Image.Image:
    """The picture at its final size."""
    return image.resize((SIDE, SIDE), Image.Resampling.BOX)
