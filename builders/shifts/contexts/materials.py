"""The materials of floors and walls: each public function draws a square tile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from builders.shifts.drawing import (
    Colour,
    cells,
    cloud,
    flat,
    grid,
    palette,
    pick,
    picture,
    ramp,
    smooth_noise,
    stretched,
    where,
)
from builders.shifts.drawing import Doubles as Field

TILE = 256


def turf(random: np.random.Generator) -> Image.Image:
    colours = palette(random, "2c6b1e 3f8f2a 58ad38 7cc84e")
    image = picture(ramp(cloud(random, 6, 5, TILE), colours))
    pen = ImageDraw.Draw(image)
    for x, y in random.uniform(0, TILE, (2600, 2)).tolist():
        dx, dy = random.uniform(-3, 3), random.uniform(4, 9)
        pen.line([(x, y), (x + dx, y - dy)], fill=pick(random, colours))
    return image


def mown(random: np.random.Generator) -> Image.Image:
    stripe = ((grid(0, TILE)[0] * random.uniform(5, 8)) % 1 < 0.5)[..., np.newaxis]
    return picture(np.asarray(turf(random), dtype=np.float64) * np.where(stripe, 1.12, 0.88))


def sand(random: np.random.Generator) -> Image.Image:
    colours = palette(random, "c79a5b dcb377 ecca92 f6dfb2", turn=0.01)
    x, y = grid(random.uniform(-0.3, 0.3), TILE)
    height = np.sin(2 * np.pi * (y * random.uniform(9, 15) + 0.8 * cloud(random, 3, 3, TILE)))
    tone = stretched(0.5 * height + cloud(random, 4, 4, TILE)) * 0.7 + 0.15 + 0.02 * x
    return picture(ramp(tone, colours) * _grain(random, 0.09))


def stone(random: np.random.Generator) -> Image.Image:
    return _rock(random, "5d5f63 85878a a5a39d c4c1b8")


def red_stone(random: np.random.Generator) -> Image.Image:
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
    colours = palette(random, "55585c 7d7f80 a09b92 c9c4b8 8f8577", turn=0.01)
    columns = int(random.integers(16, 24))
    cell = cells(random, columns, *grid(0, TILE))
    body = ramp(random.random(columns**2)[cell.number], colours)
    light = ((cell.second - cell.first) * 70).clip(0.5, 1) * (1 - (cell.dx + cell.dy) * columns * 0.5)
    return picture(body * light[..., np.newaxis])


def snow(random: np.random.Generator) -> Image.Image:
    height = cloud(random, 4, 4, TILE)
    white = palette(random, "c9d9ec e6eff9 fbfdff", turn=0.01)
    return picture(ramp(0.35 + 0.65 * height, white) * _lit(height * 30, 0.07)[..., np.newaxis])


def ice(random: np.random.Generator) -> Image.Image:
    colours = palette(random, "8fc1dc b4dbec d8eff8", turn=0.01)
    cell = cells(random, 4, *grid(random.uniform(0, 3), TILE))
    crack = (cell.second - cell.first < 0.008) | (np.abs(cloud(random, 3, 4, TILE) - 0.5) < 0.006)
    return picture(where(crack, 250.0, ramp(cloud(random, 3, 3, TILE), colours)))


def litter(random: np.random.Generator) -> Image.Image:
    colours = palette(random, "8f2d14 c4481a e2761b f0a92b d9b13b 7a4a22")
    image = Image.new("RGB", (TILE, TILE), colours[5])
    pen = ImageDraw.Draw(image)
    for x, y, turn in random.uniform(0, 1, (900, 3)).tolist():
        long, wide = random.uniform(9, 15), random.uniform(3, 6)
        dx, dy = np.cos(turn * 7), np.sin(turn * 7)
        tips = (
            (long * dx, long * dy),
            (-wide * dy, wide * dx),
            (-long * dx, -long * dy),
            (wide * dy, -wide * dx),
        )
        corners = [(x * TILE + a, y * TILE + b) for a, b in tips]
        pen.polygon(corners, fill=pick(random, colours), outline=(90, 40, 16))
    return image


def waves(random: np.random.Generator) -> Image.Image:
    return _water(random, "0c4f8a 1a6fb0 2f8fcb 5ab4e0 d5f0fb")


def river(random: np.random.Generator) -> Image.Image:
    return _water(random, "0d5560 1d7480 3a959b 6fbdbb e4f7f2")


def _water(random: np.random.Generator, family: str) -> Image.Image:
    _, y = grid(random.uniform(-0.1, 0.1), TILE)
    swell = np.sin(2 * np.pi * (y * random.uniform(10, 16) + 2.2 * cloud(random, 5, 3, TILE)))
    tone = (0.5 + 0.5 * swell) ** 2 * 0.75 + 0.3 * smooth_noise(random, 6, TILE)
    return picture(ramp(tone, palette(random, family)))


def pool(random: np.random.Generator) -> Image.Image:
    x, y = grid(random.uniform(0, 3), TILE)
    bend = 0.05 * np.stack([cloud(random, 4, 3, TILE), cloud(random, 4, 3, TILE)])
    cell = cells(random, int(random.integers(5, 8)), x + bend[0], y + bend[1])
    net = 0.75 * np.exp(-(cell.second - cell.first) * 60) + 0.25 * smooth_noise(random, 4, TILE)
    return picture(ramp(net, palette(random, "13a5c4 3cc4da 8fe4ec f2ffff")))


def asphalt(random: np.random.Generator) -> Image.Image:
    tone = ramp(cloud(random, 5, 4, TILE), palette(random, "55575c 666a70 7b7e84", turn=0.01))
    return picture(tone * _grain(random, 0.14))


def paving(random: np.random.Generator) -> Image.Image:
    return _slabs(random, "a39a8d b5ab9c c6bcae 938b80", (88, 82, 76), 0.06)


def kitchen_tiles(random: np.random.Generator) -> Image.Image:
    accent = pick(random, palette(random, "5fa8b8 e0a45e 8fb36b d9788f"))
    return _slabs(random, "f4f6f4 fbfbf8 eef2f2 f8f4ee", (176, 180, 182), 0.05, accent)


def _slabs(
    random: np.random.Generator, family: str, joint: Colour, gap: float, accent: Colour | None = None
) -> Image.Image:
    """A square grid of slabs with joints between them, some in the colour of the accent."""
    columns = int(random.integers(6, 9))
    x, y = grid(0, TILE)
    u, v = (x + 0.5) * columns, (y + 0.5) * columns
    table = [*palette(random, family, turn=0.01), accent or joint]
    kind = random.integers(0, len(table) - 1, (columns, columns))
    if accent:
        kind[random.random(kind.shape) < 0.3] = len(table) - 1
    body = flat(kind[v.astype(np.int64), u.astype(np.int64)], table)
    body = body * (1.04 - 0.08 * (v % 1))[..., np.newaxis] * _grain(random, 0.03)
    return picture(where((u % 1 < gap) | (v % 1 < gap), joint, body))


def wallpaper(random: np.random.Generator) -> Image.Image:
    base, band, spot = _one_of(random, "e9d3b4 dfc29a b5763f", "d8c3c0 cbaeb0 93505c", "e6dcae d8ca8d 8f7a35")
    x, y = grid(0, TILE)
    repeats = int(random.integers(7, 11))
    away = np.hypot((x * repeats) % 1 - 0.25, (y * repeats) % 1 - 0.5)
    return picture(where(away < 0.13, spot, where((x * repeats) % 1 < 0.5, base, band)))


def carpet(random: np.random.Generator) -> Image.Image:
    colours = _one_of(random, "8c3b40 b5845a 4a4560 d0b890", "35596a b0604c cbb596 6a3f4a")
    x, y = grid(0, TILE)
    repeats = int(random.integers(3, 5))
    away = np.abs((x * repeats) % 1 - 0.5) + np.abs((y * repeats) % 1 - 0.5)
    weave = 1 + 0.14 * np.sign(np.sin(x * TILE * np.pi / 2) * np.sin(y * TILE * np.pi / 2))
    light = weave[..., np.newaxis] * _grain(random, 0.12)
    return picture(flat(np.floor(away * 9).astype(np.int64), colours) * light)


def facade(random: np.random.Generator) -> Image.Image:
    plaster, glass, frame = _one_of(
        random, "c9b8a0 6b8aa5 efe8dc", "9aa7b1 4c647d dfe6ea", "b98972 70889a f0e4d8"
    )
    x, y = grid(0, TILE)
    u, v = (x * int(random.integers(5, 8))) % 1, (y * int(random.integers(4, 7))) % 1
    pane = (np.abs(u - 0.5) < 0.24) & (np.abs(v - 0.5) < 0.32)
    rim = (np.abs(u - 0.5) < 0.3) & (np.abs(v - 0.5) < 0.38)
    sheen = np.array(glass, dtype=np.float64) * (1.25 - 0.5 * v)[..., np.newaxis]
    return picture(where(pane, sheen, where(rim, frame, plaster)))


def chessboard(random: np.random.Generator) -> Image.Image:
    dark, light = _one_of(random, "6b3f22 ecd3a4", "27272b f1efe8", "2f5d43 f0ead2")
    x, y = grid(0, TILE)
    return picture(where((np.floor(x * 4) + np.floor(y * 4)) % 2 == 0, dark, light))


def _one_of(random: np.random.Generator, *families: str) -> list[Colour]:
    return palette(random, families[int(random.integers(len(families)))])


def _lit(height: Field, steep: float) -> Field:
    """Return the light on a relief, from the upper left; 1 where it is level."""
    down, right = np.gradient(height)
    return np.asarray(np.clip(1 - steep * (down + right), 0.3, 1.7))


def _grain(random: np.random.Generator, amount: float) -> NDArray[np.float64]:
    return np.asarray(1 + random.uniform(-amount, amount, (TILE, TILE)))[..., np.newaxis]
