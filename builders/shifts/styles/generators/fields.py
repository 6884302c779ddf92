"""Styles made of continuous fields: waves, flowing noise, rays, coloured by height."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing.noise import (
    FINE,
    cells,
    cloud,
    finished,
    grid,
    smooth_noise,
    stretched,
    warp,
)
from builders.shifts.drawing.palettes import flat, palette, picture, ramp


def waves(rng: np.random.Generator) -> Image.Image:
    """Rolling bands of blue with white crests."""
    colours = palette(rng, "0b4fb0 1467c8 2a86dc 3f9be6 eaf6ff 0b4fb0")
    x, y = grid(rng.uniform(-0.35, 0.35))
    swell = sum(rng.uniform(0.01, 0.04) * np.sin(2 * np.pi * (n * x + rng.random())) for n in (1, 2, 3, 5))
    bands = rng.uniform(5, 10)
    height = (y + swell) * bands
    return finished(picture(ramp(height % 1, colours)))


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


def flames(rng: np.random.Generator) -> Image.Image:
    """Tongues of fire from yellow through red to black."""
    colours = palette(rng, "0d0202 3a0602 a81a02 ff8a00 fff0a0", turn=0.01)
    x, y = grid(rng.uniform(-0.25, 0.25))
    dx, _ = warp(rng, int(rng.integers(4, 8)), rng.uniform(0.06, 0.12))
    tongues = np.abs(np.sin(np.pi * (x + dx + 0.15 * smooth_noise(rng, 3)) * rng.uniform(4, 7)))
    heat = tongues * 0.7 + cloud(rng, 5, 4) * 0.9 + y * rng.uniform(0.5, 0.9) - 0.3
    return finished(picture(ramp(stretched(heat), colours)))


def contour_map(rng: np.random.Generator) -> Image.Image:
    """Hypsometric tints with brown contour lines: a relief map."""
    tints = palette(rng, "7cc6a4 bfe3a0 f4f0b0 f0c27a d98a52 fafafa")
    line = np.array(palette(rng, "5b3a1e")[0], dtype=np.float64)
    levels = cloud(rng, int(rng.integers(3, 5)), 3) * rng.uniform(9, 14)
    tint = ramp(np.floor(levels) / levels.max(), tints)
    slope = np.hypot(*np.gradient(levels)) + 1e-6
    near = np.minimum(levels % 1, 1 - levels % 1) / slope < rng.uniform(1.2, 2.0)
    return finished(picture(np.where(near[..., np.newaxis], line, tint)))


def camouflage(rng: np.random.Generator) -> Image.Image:
    """Blots of olive, tan, brown and black."""
    colours = palette(rng, "4b5320 a39b6b 5a4327 1f2414", turn=0.02)
    cells = int(rng.integers(4, 8))
    index = np.zeros((FINE, FINE), dtype=np.int64)
    for number in (1, 2, 3):
        blot = cloud(rng, cells, 2)
        index[blot > np.quantile(blot, rng.uniform(0.62, 0.75))] = number
    return finished(picture(flat(index, colours)))


def nebula(rng: np.random.Generator) -> Image.Image:
    """Glowing clouds of violet and pink with a few stars."""
    colours = palette(rng, "0c021c 2b0a5a 7a1fc0 ff5fb8 fff0fa")
    bright = cloud(rng, int(rng.integers(3, 6)), 5)
    pixels = ramp(stretched(bright + 0.6 * cloud(rng, 6, 4) ** 2), colours)
    stars = rng.random(bright.shape) > 0.9985
    return finished(picture(np.where(stars[..., np.newaxis], 255.0, pixels)))


def kaleidoscope(rng: np.random.Generator) -> Image.Image:
    """A rosette: one wedge of a many-coloured pattern, mirrored round the centre."""
    colours = palette(rng, "ff006e fb5607 ffbe0b 3a86ff 8338ec 06d6a0", turn=0.05)
    x, y = grid()
    wedges = int(rng.integers(5, 10))
    radius = np.hypot(x, y)
    angle = np.abs((np.arctan2(y, x) * wedges / (2 * np.pi)) % 1 - 0.5)
    wobble = np.sin(radius * rng.uniform(20, 45) + angle * rng.uniform(6, 14))
    other = np.sin(angle * rng.uniform(12, 24) - radius * rng.uniform(10, 30) + rng.random() * 6)
    index = np.floor((wobble + other + 2) * rng.uniform(1.5, 2.5)).astype(np.int64)
    return finished(picture(flat(rng.permutation(len(colours))[index % len(colours)], colours)))


def spirals(rng: np.random.Generator) -> Image.Image:
    """Several spirals side by side, yellow on violet."""
    colours = palette(rng, "ffd60a 5a1fb8", turn=0.03)
    columns = int(rng.integers(2, 5))
    cell = cells(rng, columns, *grid(), looseness=0.6)
    hand = rng.choice([-1.0, 1.0], columns**2)[cell.number]
    angle = np.arctan2(cell.dy, cell.dx) / (2 * np.pi)
    turns = cell.first * rng.uniform(14, 24) + hand * angle + rng.random(columns**2)[cell.number]
    band = (turns % 1 < rng.uniform(0.18, 0.3)).astype(np.int64)
    return finished(picture(flat(band, colours)))


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
