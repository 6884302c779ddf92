"""Styles made of scattered bits and of materials: discs, dots, chips, washes, paper."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing import FINE, cells, cloud, finished, grid, palette, pick, picture, ramp, where

from .parts import canvas


def confetti(rng: np.random.Generator) -> Image.Image:
    """Bright paper scraps thrown on white."""
    colours = palette(rng, "ff2e63 08d9d6 f9ed69 6a2c70 3ec70b", turn=0.03)
    image, draw = canvas((252, 250, 250))
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
    pixels = where(flake > level, paint, corroded)
    return finished(picture(where(rim, pixels * 0.3, pixels)))


def pale_paper(rng: np.random.Generator) -> Image.Image:
    """Cream paper with faint fibres."""
    light, shade = palette(rng, "f7f2e6 e9e0cc")
    return finished(picture(ramp(cloud(rng, 24, 4), [shade, light])))


def dark_starfield(rng: np.random.Generator) -> Image.Image:
    """A black sky with scattered small stars."""
    night, star = palette(rng, "081030 fdf6d0")
    image, draw = canvas(night)
    for x, y in rng.uniform(0, FINE, (int(rng.integers(120, 320)), 2)):
        radius = rng.exponential(2.0) + 0.6
        draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=star)
    return finished(image.filter(ImageFilter.GaussianBlur(1)))
