"""Patterns that floors, walls and cloths of scenes may have: each public function draws a square picture.

They were drawn as styles for the style bank (scripts/style_pictures), which has brick and contour_map too.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing import (
    cloud,
    finished,
    flat,
    grid,
    palette,
    picture,
    ramp,
    smooth_noise,
    warp,
    where,
)


def brick(rng: np.random.Generator) -> Image.Image:
    """Courses of red bricks with light mortar."""
    clay = palette(rng, "8c2f1b b5482f a63d2a c96a4a 7a2416")
    mortar = palette(rng, "d9b8a0")[0]
    rows = int(rng.integers(9, 16))
    x, y = grid(rng.uniform(-0.12, 0.12))
    u, v = (x + 1) * rows / 2, (y + 1) * rows
    course = v.astype(np.int64)
    u = u + 0.5 * (course % 2)
    shade = rng.random((3 * rows, 3 * rows))[course, u.astype(np.int64)]
    pixels = ramp(shade, clay) * (0.85 + 0.3 * smooth_noise(rng, 64))[..., np.newaxis]
    gap = rng.uniform(0.04, 0.07)
    joint = (u % 1 < gap / 2) | (u % 1 > 1 - gap / 2) | (v % 1 < gap) | (v % 1 > 1 - gap)
    return finished(picture(where(joint, mortar, pixels)))


def checkers(rng: np.random.Generator) -> Image.Image:
    """A bent checkerboard of dark and light crimson."""
    colours = palette(rng, "5c0f24 e0284a")
    x, y = grid(rng.uniform(0, np.pi / 2))
    dx, dy = warp(rng, int(rng.integers(2, 4)), rng.uniform(0.0, 0.12))
    squares = rng.uniform(5, 10)
    index = np.floor((x + dx) * squares).astype(np.int64) + np.floor((y + dy) * squares).astype(np.int64)
    return finished(picture(flat(index % 2, colours)))


def contour_map(rng: np.random.Generator) -> Image.Image:
    """Hypsometric tints with brown contour lines: a relief map."""
    tints = palette(rng, "7cc6a4 bfe3a0 f4f0b0 f0c27a d98a52 fafafa")
    line = palette(rng, "5b3a1e")[0]
    levels = cloud(rng, int(rng.integers(3, 5)), 3) * rng.uniform(9, 14)
    tint = ramp(np.floor(levels) / levels.max(), tints)
    slope = np.hypot(*np.gradient(levels)) + 1e-6
    near = np.minimum(levels % 1, 1 - levels % 1) / slope < rng.uniform(1.2, 2.0)
    return finished(picture(where(near, line, tint)))


def marble(rng: np.random.Generator) -> Image.Image:
    """Dark green stone with pale and golden veins."""
    colours = palette(rng, "f3f7ee c9b458 2f7d5b 0e3b2e 1b5e46 0a2a22")
    x, _ = grid(rng.uniform(0, np.pi))
    turbulence = cloud(rng, int(rng.integers(2, 5)), 5)
    vein = np.abs(np.sin(np.pi * (x * rng.uniform(2, 5) + turbulence * rng.uniform(3, 5))))
    return finished(picture(ramp(vein ** rng.uniform(0.6, 1.0), colours)))


def plaid(rng: np.random.Generator) -> Image.Image:
    """Tartan: the same bands across and along, mixed where they cross."""
    green, dark, red, yellow = palette(rng, "117a45 0a2a1c d0342c f0d050")
    bands = [green, dark, green, red, green, yellow, dark, red]
    widths = np.array([5, 3, 3, 2, 2, 0.8, 4, 1]) * rng.uniform(0.6, 1.5, len(bands))
    edges = np.cumsum(widths)[:-1] / widths.sum()
    x, y = grid(float(rng.choice([0.0, np.pi / 4])))
    repeats = rng.uniform(1.8, 3.5)
    across = flat(np.searchsorted(edges, (x * repeats) % 1), bands)
    along = flat(np.searchsorted(edges, (y * repeats) % 1), bands)
    twill = (((x + y) * 90) % 1 < 0.5)[..., np.newaxis]
    return finished(picture(np.where(twill, across * 0.75 + along * 0.25, across * 0.25 + along * 0.75)))


def stripes(rng: np.random.Generator) -> Image.Image:
    """Slanted stripes of several widths through all the hues."""
    colours = palette(rng, "ff1744 ff9100 ffea00 00e676 2979ff d500f9", turn=0.02)
    x, _ = grid(rng.uniform(-0.5, 0.5) + np.pi / 4)
    edges = np.cumsum(rng.uniform(0.02, 0.08, 60)) - 1.2
    return finished(picture(flat(np.searchsorted(edges, x) + int(rng.integers(6)), colours)))


def sunbursts(rng: np.random.Generator) -> Image.Image:
    colours = palette(rng, "e63946 fff4dc 2a9df4 fff4dc")
    x, y = grid()
    x, y = x - rng.uniform(-0.3, 0.3), y - rng.uniform(-0.3, 0.3)
    rays = 4 * int(rng.integers(5, 11))
    twist = rng.uniform(-0.8, 0.8) * np.hypot(x, y)
    index = np.floor((np.arctan2(y, x) / (2 * np.pi) + 0.5 + twist) * rays).astype(np.int64)
    return finished(picture(flat(index, colours)))


def truchet(rng: np.random.Generator) -> Image.Image:
    """Square tiles with two quarter circles each, turned at random: endless loops of teal on cream."""
    ground, ink, edge = palette(rng, "f6e7c1 0f8b8d 143642")
    tiles = int(rng.integers(5, 9))
    x, y = grid()
    u, v = (x + 0.5) * tiles, (y + 0.5) * tiles
    turned = rng.integers(0, 2, (tiles, tiles))[v.astype(np.int64), u.astype(np.int64)]
    u, v = np.where(turned == 1, 1 - u % 1, u % 1), v % 1
    away = np.minimum(np.abs(np.hypot(u, v) - 0.5), np.abs(np.hypot(1 - u, 1 - v) - 0.5))
    width = rng.uniform(0.08, 0.13)
    index = np.where(away < width, 1, np.where(away < width + 0.04, 2, 0))
    return finished(picture(flat(index, [ground, ink, edge])))


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


def zigzag(rng: np.random.Generator) -> Image.Image:
    """Chevrons in turquoise, orange and sand."""
    colours = palette(rng, "00b5ad ff7a1a fff3d6 0b4f6c")
    x, y = grid(rng.uniform(-0.6, 0.6))
    teeth, height, bands = rng.uniform(3, 7), rng.uniform(0.05, 0.1), rng.uniform(10, 18)
    ridge = np.abs((x * teeth) % 1 - 0.5) * 2 * height
    order = rng.permutation(len(colours))
    band = np.floor((y + ridge) * bands).astype(np.int64)
    return finished(picture(flat(order[band % len(order)], colours)))
