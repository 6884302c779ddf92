"""Styles made of tiles that fill the plane: squares, hexagons, bricks, cells, woven bands."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing.noise import finished, grid, hexagons, smooth_noise, warp
from builders.shifts.drawing.palettes import flat, palette, picture, ramp, where


def checkers(rng: np.random.Generator) -> Image.Image:
    """A bent checkerboard of dark and light crimson."""
    colours = palette(rng, "5c0f24 e0284a")
    x, y = grid(rng.uniform(0, np.pi / 2))
    dx, dy = warp(rng, int(rng.integers(2, 4)), rng.uniform(0.0, 0.12))
    squares = rng.uniform(5, 10)
    index = np.floor((x + dx) * squares).astype(np.int64) + np.floor((y + dy) * squares).astype(np.int64)
    return finished(picture(flat(index % 2, colours)))


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


def zigzag(rng: np.random.Generator) -> Image.Image:
    """Chevrons in turquoise, orange and sand."""
    colours = palette(rng, "00b5ad ff7a1a fff3d6 0b4f6c")
    x, y = grid(rng.uniform(-0.6, 0.6))
    teeth, height, bands = rng.uniform(3, 7), rng.uniform(0.05, 0.1), rng.uniform(10, 18)
    ridge = np.abs((x * teeth) % 1 - 0.5) * 2 * height
    order = rng.permutation(len(colours))
    band = np.floor((y + ridge) * bands).astype(np.int64)
    return finished(picture(flat(order[band % len(order)], colours)))


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
