"""Styles made of continuous fields: waves, flowing noise, rays, coloured by height."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing.noise import FINE, cells, cloud, finished, grid, smooth_noise, warp
from builders.shifts.drawing.palettes import flat, palette, picture, ramp, where


def marble(rng: np.random.Generator) -> Image.Image:
    """Dark green stone with pale and golden veins."""
    colours = palette(rng, "f3f7ee c9b458 2f7d5b 0e3b2e 1b5e46 0a2a22")
    x, _ = grid(rng.uniform(0, np.pi))
    turbulence = cloud(rng, int(rng.integers(2, 5)), 5)
    vein = np.abs(np.sin(np.pi * (x * rng.uniform(2, 5) + turbulence * rng.uniform(3, 5))))
    return finished(picture(ramp(vein ** rng.uniform(0.6, 1.0), colours)))


def wood_grain(rng: np.random.Generator) -> Image.Image:
    """Planks with rings drawn out along the grain."""
    colours = palette(rng, "3e1f0a 8a4b1f c98546 e0b070", turn=0.012)
    x, y = grid(float(rng.choice([0.0, np.pi / 2])) + rng.uniform(-0.1, 0.1))
    planks = int(rng.integers(2, 5))
    board = np.floor((y + 0.75) * planks).astype(np.int64)
    shift = rng.uniform(0, 7, 3 * planks)[board]
    bend = smooth_noise(rng, 3) * rng.uniform(0.08, 0.2)
    rings = ((np.hypot(x * 0.25 + 0.1 * shift, y + bend) * rng.uniform(22, 40)) + shift) % 1
    fibre = smooth_noise(rng, 96) * 0.25 + 0.85
    seam = np.where((y + 0.75) * planks % 1 < 0.03, 0.35, 1.0)
    return finished(picture(ramp(0.3 + 0.7 * rings**3, colours) * (fibre * seam)[..., np.newaxis]))


def contour_map(rng: np.random.Generator) -> Image.Image:
    """Hypsometric tints with brown contour lines: a relief map."""
    tints = palette(rng, "7cc6a4 bfe3a0 f4f0b0 f0c27a d98a52 fafafa")
    line = palette(rng, "5b3a1e")[0]
    levels = cloud(rng, int(rng.integers(3, 5)), 3) * rng.uniform(9, 14)
    tint = ramp(np.floor(levels) / levels.max(), tints)
    slope = np.hypot(*np.gradient(levels)) + 1e-6
    near = np.minimum(levels % 1, 1 - levels % 1) / slope < rng.uniform(1.2, 2.0)
    return finished(picture(where(near, line, tint)))


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


def sunbursts(rng: np.random.Generator) -> Image.Image:
    """Rays from a point, in red, cream and sky blue."""
    colours = palette(rng, "e63946 fff4dc 2a9df4 fff4dc")
    x, y = grid()
    x, y = x - rng.uniform(-0.3, 0.3), y - rng.uniform(-0.3, 0.3)
    rays = 4 * int(rng.integers(5, 11))
    twist = rng.uniform(-0.8, 0.8) * np.hypot(x, y)
    index = np.floor((np.arctan2(y, x) / (2 * np.pi) + 0.5 + twist) * rays).astype(np.int64)
    return finished(picture(flat(index, colours)))


def stripes(rng: np.random.Generator) -> Image.Image:
    """Slanted stripes of several widths through all the hues."""
    colours = palette(rng, "ff1744 ff9100 ffea00 00e676 2979ff d500f9", turn=0.02)
    x, _ = grid(rng.uniform(-0.5, 0.5) + np.pi / 4)
    edges = np.cumsum(rng.uniform(0.02, 0.08, 60)) - 1.2
    return finished(picture(flat(np.searchsorted(edges, x) + int(rng.integers(6)), colours)))


def mist(rng: np.random.Generator) -> Image.Image:
    """Soft grey-blue gradients without an edge."""
    colours = palette(rng, "c9d6df a9bac6 e4ebf0 8fa3b2")
    return finished(picture(ramp(cloud(rng, 2, 2), colours)))
