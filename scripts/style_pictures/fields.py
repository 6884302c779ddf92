"""Styles made of continuous fields: waves, flowing noise, rays, coloured by height."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing import FINE, cells, cloud, finished, flat, grid, palette, picture, ramp, warp


def camouflage(rng: np.random.Generator) -> Image.Image:
    """Blots of olive, tan, brown and black."""
    colours = palette(rng, "4b5320 a39b6b 5a4327 1f2414", turn=0.02)
    cells = int(rng.integers(4, 8))
    index = np.zeros((FINE, FINE), dtype=np.int64)
    for number in (1, 2, 3):
        blot = cloud(rng, cells, 2)
        index[blot > np.quantile(blot, rng.uniform(0.62, 0.75))] = number
    return finished(picture(flat(index, colours)))


def cracked_lava(rng: np.random.Generator) -> Image.Image:
    """Black crust broken by glowing cracks."""
    colours = palette(rng, "fff1a8 ff9e00 e03a00 4a0d05 1c1414 2b2323", turn=0.012)
    x, y = grid()
    dx, dy = warp(rng, 9, 0.03)
    crust = cells(rng, int(rng.integers(4, 8)), x + dx, y + dy)
    depth = (crust.second - crust.first) * rng.uniform(7, 12) + cloud(rng, 12, 3) * 0.25
    return finished(picture(ramp(depth, colours)))


def mist(rng: np.random.Generator) -> Image.Image:
    """Soft grey-blue gradients without an edge."""
    colours = palette(rng, "c9d6df a9bac6 e4ebf0 8fa3b2")
    return finished(picture(ramp(cloud(rng, 2, 2), colours)))
