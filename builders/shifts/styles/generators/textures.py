"""Styles made of scattered bits and of materials: discs, dots, chips, washes, paper."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing.noise import FINE, cells, cloud, finished, grid, warp
from builders.shifts.drawing.palettes import palette, pick, picture, ramp


def discs(rng: np.random.Generator) -> Image.Image:
    """Big overlapping discs with rings, orange, red and cream."""
    colours = palette(rng, "ff5a1f c1121f ffb703 fff1d0 780000", turn=0.015)
    image = Image.new("RGB", (FINE, FINE), colours[3])
    draw = ImageDraw.Draw(image)
    size = rng.uniform(35, 70)
    for x, y in rng.uniform(0, FINE, (int(9000 / size), 2)):
        radius = size * rng.uniform(0.5, 1.4)
        for part in (1.0, 0.66, 0.33):
            reach = radius * part
            draw.ellipse([x - reach, y - reach, x + reach, y + reach], fill=pick(rng, colours))
    return finished(image)


def halftone(rng: np.random.Generator) -> Image.Image:
    """Printed dots: magenta and cyan screens at two angles on yellow."""
    colours = palette(rng, "ffe600 ff0090 00a8e8", turn=0.015)
    pixels = np.zeros((FINE, FINE, 3)) + np.array(colours[0], dtype=np.float64)
    pitch = rng.uniform(22, 38)
    base = rng.uniform(0, math.pi)
    for turn, ink in ((base, colours[1]), (base + 0.6, colours[2])):
        x, y = grid(turn)
        tone = cloud(rng, 2, 2)
        away = np.hypot((x * pitch) % 1 - 0.5, (y * pitch) % 1 - 0.5)
        dot = (away < 0.1 + 0.42 * tone)[..., np.newaxis]
        pixels = np.where(dot, pixels * np.array(ink, dtype=np.float64) / 255, pixels)
    return finished(picture(pixels))


def terrazzo(rng: np.random.Generator) -> Image.Image:
    """Angular chips of stone in a pink ground."""
    ground, *stone = palette(rng, "f2b5b0 ffffff 8c3b4a 3c5a6b e0765a")
    x, y = grid()
    dx, dy = warp(rng, 14, 0.012)
    columns = int(rng.integers(9, 15))
    cell = cells(rng, columns, x + dx, y + dy, looseness=1.0)
    shown = rng.integers(-1, len(stone), columns**2)[cell.number]
    chip = (shown >= 0) & (cell.second - cell.first > rng.uniform(0.012, 0.025))
    table = np.array([*stone, ground], dtype=np.float64)
    return finished(picture(table[np.where(chip, shown, len(stone))]))


def confetti(rng: np.random.Generator) -> Image.Image:
    """Bright paper scraps thrown on white."""
    colours = palette(rng, "ff2e63 08d9d6 f9ed69 6a2c70 3ec70b", turn=0.03)
    image = Image.new("RGB", (FINE, FINE), (252, 250, 250))
    draw = ImageDraw.Draw(image)
    size = rng.uniform(9, 16)
    for x, y in rng.uniform(0, FINE, (int(3000 / size), 2)):
        turn = rng.uniform(0, math.pi)
        half, thin = size * rng.uniform(0.7, 1.3), size * rng.uniform(0.35, 0.6)
        dx, dy = math.cos(turn), math.sin(turn)
        corners = [
            (x + a * half * dx - b * thin * dy, y + a * half * dy + b * thin * dx)
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
        draw.polygon(corners, fill=pick(rng, colours))
    return finished(image)


def watercolour_wash(rng: np.random.Generator) -> Image.Image:
    """Translucent blots of rose, aqua and lilac with darker rims on white paper."""
    colours = palette(rng, "ff8fab 7bdff2 cdb4db b8f2c9", turn=0.04)
    pixels = np.full((FINE, FINE, 3), 252.0)
    x, y = grid()
    for _ in range(int(rng.integers(7, 12))):
        px, py = rng.uniform(-0.5, 0.5, 2)
        edge = np.hypot(x - px, y - py) + 0.18 * cloud(rng, 5, 3) - rng.uniform(0.2, 0.35)
        strength = np.where(edge < 0, 0.45 + 0.4 * np.exp(-((edge / 0.012) ** 2)), 0.0)[..., np.newaxis]
        ink = np.array(pick(rng, colours), dtype=np.float64) / 255
        pixels = pixels * (1 - strength * (1 - ink))
    return finished(picture(pixels))


def pebbles(rng: np.random.Generator) -> Image.Image:
    """Rounded stones, slate grey to sand, lit from one side."""
    colours = palette(rng, "4b5563 9ca3af d6cfc0 8b7d6b 2f3640 b59f84")
    columns = int(rng.integers(8, 14))
    stone = cells(rng, columns, *grid())
    height = (stone.second - stone.first).clip(0, 0.05) / 0.05
    turn = rng.uniform(0, 2 * math.pi)
    light = stone.dx * math.cos(turn) + stone.dy * math.sin(turn)
    body = ramp(rng.random(columns**2)[stone.number], colours)
    return finished(picture(body * (height * (0.9 + 6 * light)).clip(0.08, 1.3)[..., np.newaxis]))


def ink_blots(rng: np.random.Generator) -> Image.Image:
    """Black splashes with drops on white."""
    field = cloud(rng, int(rng.integers(4, 8)), 4)
    image = picture(ramp((field - np.quantile(field, 0.55)) * 40 + 0.5, [(248, 247, 243), (8, 8, 14)]))
    draw = ImageDraw.Draw(image)
    for x, y in rng.uniform(0, FINE, (int(rng.integers(60, 120)), 2)):
        radius = rng.uniform(1.5, 9)
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=(8, 8, 14))
    return finished(image)


def rust(rng: np.random.Generator) -> Image.Image:
    """Flaking teal paint over orange rust."""
    paint, *oxide = palette(rng, "2a8c8c 5b2207 a8430e e07b28 3a1606", turn=0.015)
    corroded = ramp(cloud(rng, 16, 5), oxide)
    flake = cloud(rng, int(rng.integers(4, 7)), 5)
    level = np.quantile(flake, rng.uniform(0.4, 0.6))
    rim = np.abs(flake - level) < 0.012
    pixels = np.where((flake > level)[..., np.newaxis], np.array(paint, dtype=np.float64), corroded)
    return finished(picture(np.where(rim[..., np.newaxis], pixels * 0.3, pixels)))


def pale_paper(rng: np.random.Generator) -> Image.Image:
    """Cream paper with faint fibres."""
    light, shade = palette(rng, "f7f2e6 e9e0cc")
    grain = cloud(rng, 24, 4)
    return finished(picture(ramp(grain, [shade, light])))


def dark_starfield(rng: np.random.Generator) -> Image.Image:
    """A black sky with scattered small stars."""
    night, star = palette(rng, "081030 fdf6d0")
    image = Image.new("RGB", (FINE, FINE), night)
    draw = ImageDraw.Draw(image)
    for x, y in rng.uniform(0, FINE, (int(rng.integers(120, 320)), 2)):
        radius = rng.exponential(2.0) + 0.6
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=star)
    return finished(image.filter(ImageFilter.GaussianBlur(1)))


def grey_static(rng: np.random.Generator) -> Image.Image:
    """Television snow: grey noise without a larger form."""
    coarse = int(rng.choice([1, 2, 4]))
    level = rng.uniform(40, 215, (FINE // coarse, FINE // coarse, 1)).repeat(3, axis=2)
    return finished(picture(level.repeat(coarse, axis=0).repeat(coarse, axis=1)))
