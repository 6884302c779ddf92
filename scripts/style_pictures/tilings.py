"""Styles made of tiles that fill the plane: squares, hexagons, bricks, cells, woven bands."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing import finished, flat, grid, palette, picture, ramp, where

from .parts import hexagons


def honeycomb(rng: np.random.Generator) -> Image.Image:
    """Amber hexagons with dark walls and a light heart."""
    dark, deep, amber, light = palette(rng, "6b3a00 d98200 ffb81c ffe27a", turn=0.015)
    x, y = grid(rng.uniform(0, np.pi / 3))
    columns = rng.uniform(6, 11)
    number, dx, dy = hexagons(x * columns, y * columns)
    shade = rng.uniform(-0.25, 0.25, 97)[number % 97]
    fill = ramp(1 - 1.6 * np.hypot(dx, dy) + shade, [deep, amber, light])
    to_wall = 0.5 - np.maximum(np.abs(dx), np.abs(dx) / 2 + np.abs(dy) * np.sqrt(0.75))
    wall = to_wall < rng.uniform(0.03, 0.06)
    return finished(picture(where(wall, dark, fill)))


def scales(rng: np.random.Generator) -> Image.Image:
    """Rows of overlapping fish scales, emerald with a light rim."""
    rim, *body = palette(rng, "d8fff0 00a37a 006d5b 3ddc97 004d40")
    x, y = grid(rng.uniform(-0.3, 0.3))
    columns = rng.uniform(7, 12)
    u, v = x * columns, y * columns
    shades = rng.integers(0, len(body), 97)
    pixels = np.zeros((*x.shape, 3))
    top = np.ceil(2 * v - 1.04)
    for row in (top + 2, top + 1, top):  # the upper row lies on the lower ones
        column = np.round(u - 0.5 * (row % 2))
        away = np.hypot(u - column - 0.5 * (row % 2), v - 0.5 * row)
        shade = flat(shades[(7 * column + 31 * row).astype(np.int64) % 97], body)
        shade = shade * (0.6 + 0.8 * away.clip(0, 0.6))[..., np.newaxis]
        pixels = where(away < 0.53, where(away > 0.46, rim, shade), pixels)
    return finished(picture(pixels))


def knit(rng: np.random.Generator) -> Image.Image:
    """Rows of V-shaped stitches with a worked pattern, wine red and white."""
    colours = palette(rng, "7b1e3a f4ede4 b03052")
    columns = int(rng.integers(12, 18))
    x, y = grid()
    u, v = (x + 0.5) * columns, (y + 0.5) * columns * 1.3
    slant = v + np.abs(u % 1 - 0.5) * 1.2
    row, column = slant.astype(np.int64), u.astype(np.int64)
    period = int(rng.integers(4, 9))
    motif = (np.abs(column % period - period // 2) + row % period) % period
    index = np.where(motif < rng.integers(2, 4), 1, np.where(motif == period - 1, 2, 0))
    thread = 0.55 + 0.45 * np.sin(np.pi * (slant % 1)) * np.sin(np.pi * ((2 * u) % 1)).clip(0.2)
    return finished(picture(flat(index, colours) * (0.25 + thread)[..., np.newaxis]))
