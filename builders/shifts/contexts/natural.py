"""Natural materials, each drawn as a square tile: turf, sand, rock, snow, leaves, water."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from builders.shifts.drawing.noise import Field, cells, cloud, grid, smooth_noise, stretched
from builders.shifts.drawing.palettes import palette, pick, picture, ramp

TILE = 256


def turf(random: np.random.Generator) -> Image.Image:
    """Grass from above."""
    colours = palette(random, "2c6b1e 3f8f2a 58ad38 7cc84e")
    image = picture(ramp(cloud(random, 6, 5, TILE), colours))
    pen = ImageDraw.Draw(image)
    for x, y in random.uniform(0, TILE, (2600, 2)).tolist():
        dx, dy = random.uniform(-3, 3), random.uniform(4, 9)
        pen.line([(x, y), (x + dx, y - dy)], fill=pick(random, colours))
    return image


def mown(random: np.random.Generator) -> Image.Image:
    """A lawn with the stripes of the mower."""
    stripe = ((grid(0, TILE)[0] * random.uniform(5, 8)) % 1 < 0.5)[..., np.newaxis]
    return picture(np.asarray(turf(random), dtype=np.float64) * np.where(stripe, 1.12, 0.88))


def sand(random: np.random.Generator) -> Image.Image:
    """Rippled sand."""
    colours = palette(random, "c79a5b dcb377 ecca92 f6dfb2", turn=0.01)
    x, y = grid(random.uniform(-0.3, 0.3), TILE)
    height = np.sin(2 * np.pi * (y * random.uniform(9, 15) + 0.8 * cloud(random, 3, 3, TILE)))
    tone = stretched(0.5 * height + cloud(random, 4, 4, TILE)) * 0.7 + 0.15 + 0.02 * x
    return picture(ramp(tone, colours) * grain(random, 0.09)[..., np.newaxis])


def stone(random: np.random.Generator) -> Image.Image:
    """Weathered grey rock with cracks."""
    return _rock(random, "5d5f63 85878a a5a39d c4c1b8")


def red_stone(random: np.random.Generator) -> Image.Image:
    """Layered red rock of a canyon."""
    return _rock(random, "7b3a22 a6532f c4703f b98d68", layers=7)


def _rock(random: np.random.Generator, family: str, layers: int = 0) -> Image.Image:
    height = cloud(random, 5, 6, TILE)
    cell = cells(random, int(random.integers(3, 6)), *grid(random.uniform(0, 3), TILE))
    crack = ((cell.second - cell.first) * 18).clip(0.6, 1)
    step = grid(0, TILE)[1] * layers + 2.5 * height
    tone = stretched(np.floor(step * 2) % 3) * 0.6 + 0.4 * height if layers else height
    light = _lit(height * 40 + 2 * cell.first * TILE / 10, 0.28) * crack
    return picture(ramp(tone, palette(random, family, turn=0.01)) * light[..., np.newaxis])


def gravel(random: np.random.Generator) -> Image.Image:
    """Small grey stones."""
    colours = palette(random, "55585c 7d7f80 a09b92 c9c4b8 8f8577", turn=0.01)
    columns = int(random.integers(16, 24))
    cell = cells(random, columns, *grid(0, TILE))
    body = ramp(random.random(columns**2)[cell.number], colours)
    light = ((cell.second - cell.first) * 70).clip(0.5, 1) * (1 - (cell.dx + cell.dy) * columns * 0.5)
    return picture(body * light[..., np.newaxis])


def snow(random: np.random.Generator) -> Image.Image:
    """Snow with soft drifts."""
    height = cloud(random, 4, 4, TILE)
    white = palette(random, "c9d9ec e6eff9 fbfdff", turn=0.01)
    return picture(ramp(0.35 + 0.65 * height, white) * _lit(height * 30, 0.07)[..., np.newaxis])


def ice(random: np.random.Generator) -> Image.Image:
    """Pale ice with white cracks."""
    colours = palette(random, "8fc1dc b4dbec d8eff8", turn=0.01)
    cell = cells(random, 4, *grid(random.uniform(0, 3), TILE))
    crack = (cell.second - cell.first < 0.008) | (np.abs(cloud(random, 3, 4, TILE) - 0.5) < 0.006)
    tone = ramp(cloud(random, 3, 3, TILE), colours)
    return picture(np.where(crack[..., np.newaxis], 250.0, tone))


def litter(random: np.random.Generator) -> Image.Image:
    """Fallen leaves, red to yellow."""
    colours = palette(random, "8f2d14 c4481a e2761b f0a92b d9b13b 7a4a22")
    image = Image.new("RGB", (TILE, TILE), colours[5])
    pen = ImageDraw.Draw(image)
    for x, y, turn in random.uniform(0, 1, (900, 3)).tolist():
        long, wide = random.uniform(9, 15), random.uniform(3, 6)
        dx, dy = np.cos(turn * 7), np.sin(turn * 7)
        at = (x * TILE, y * TILE)
        corners = [
            (long * dx, long * dy),
            (-wide * dy, wide * dx),
            (-long * dx, -long * dy),
            (wide * dy, -wide * dx),
        ]
        pen.polygon(
            [(at[0] + a, at[1] + b) for a, b in corners], fill=pick(random, colours), outline=(90, 40, 16)
        )
    return image


def waves(random: np.random.Generator) -> Image.Image:
    """Open water with light on the ripples."""
    return _water(random, "0c4f8a 1a6fb0 2f8fcb 5ab4e0 d5f0fb")


def river(random: np.random.Generator) -> Image.Image:
    """Running green-blue water."""
    return _water(random, "0d5560 1d7480 3a959b 6fbdbb e4f7f2")


def _water(random: np.random.Generator, family: str) -> Image.Image:
    _, y = grid(random.uniform(-0.1, 0.1), TILE)
    swell = np.sin(2 * np.pi * (y * random.uniform(10, 16) + 2.2 * cloud(random, 5, 3, TILE)))
    tone = (0.5 + 0.5 * swell) ** 2 * 0.75 + 0.3 * smooth_noise(random, 6, TILE)
    return picture(ramp(tone, palette(random, family)))


def pool(random: np.random.Generator) -> Image.Image:
    """Clear turquoise water with nets of light."""
    x, y = grid(random.uniform(0, 3), TILE)
    bend = 0.05 * np.stack([cloud(random, 4, 3, TILE), cloud(random, 4, 3, TILE)])
    cell = cells(random, int(random.integers(5, 8)), x + bend[0], y + bend[1])
    net = np.exp(-(cell.second - cell.first) * 60)
    return picture(
        ramp(
            0.75 * net + 0.25 * smooth_noise(random, 4, TILE), palette(random, "13a5c4 3cc4da 8fe4ec f2ffff")
        )
    )


def _lit(height: Field, steep: float) -> Field:
    """How light falls on a relief, from the upper left; 1 where it is level."""
    down, right = np.gradient(height)
    return np.asarray(np.clip(1 - steep * (down + right), 0.3, 1.7))


def grain(random: np.random.Generator, amount: float) -> Field:
    """A rough surface: brightness that differs from pixel to pixel."""
    return np.asarray(1 + random.uniform(-amount, amount, (TILE, TILE)))
