"""Materials made by people, each drawn as a square tile: tarmac, tiles, paper, cloth, fronts of houses."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.contexts.natural import TILE, grain
from builders.shifts.drawing.noise import cloud, grid
from builders.shifts.drawing.palettes import palette, pick, picture, ramp


def asphalt(random: np.random.Generator) -> Image.Image:
    """Grey tarmac."""
    tone = ramp(cloud(random, 5, 4, TILE), palette(random, "55575c 666a70 7b7e84", turn=0.01))
    return picture(tone * grain(random, 0.14)[..., np.newaxis])


def paving(random: np.random.Generator) -> Image.Image:
    """Flagstones of a square."""
    return _grid_of(random, "a39a8d b5ab9c c6bcae 938b80", int(random.integers(6, 9)), (88, 82, 76), 0.06)


def kitchen_tiles(random: np.random.Generator) -> Image.Image:
    """Glazed tiles, white with some of one colour."""
    colour = pick(random, palette(random, "5fa8b8 e0a45e 8fb36b d9788f"))
    white = "f4f6f4 fbfbf8 eef2f2 f8f4ee"
    return _grid_of(random, white, int(random.integers(6, 9)), (176, 180, 182), 0.05, accent=colour)


def _grid_of(
    random: np.random.Generator,
    family: str,
    columns: int,
    joint: tuple[int, int, int],
    gap: float,
    accent: tuple[int, int, int] | None = None,
) -> Image.Image:
    x, y = grid(0, TILE)
    u, v = (x + 0.5) * columns, (y + 0.5) * columns
    table = np.array([*palette(random, family, turn=0.01), accent or joint], dtype=np.float64)
    kind = random.integers(0, len(table) - 1, (columns, columns))
    if accent:
        kind[random.random(kind.shape) < 0.3] = len(table) - 1
    body = table[kind[v.astype(np.int64), u.astype(np.int64)]]
    body = body * (1.04 - 0.08 * (v % 1))[..., np.newaxis] * grain(random, 0.03)[..., np.newaxis]
    edge = (u % 1 < gap) | (v % 1 < gap)
    return picture(np.where(edge[..., np.newaxis], np.array(joint, dtype=np.float64), body))


def wallpaper(random: np.random.Generator) -> Image.Image:
    """Warm paper with stripes and small medallions."""
    base, band, spot = palette(
        random, _one_of(random, "e9d3b4 dfc29a b5763f", "d8c3c0 cbaeb0 93505c", "e6dcae d8ca8d 8f7a35")
    )
    x, y = grid(0, TILE)
    repeats = int(random.integers(7, 11))
    stripe = ((x * repeats) % 1 < 0.5)[..., np.newaxis]
    pixels = np.where(stripe, np.array(base, dtype=np.float64), np.array(band, dtype=np.float64))
    away = np.hypot((x * repeats) % 1 - 0.25, (y * repeats) % 1 - 0.5)
    return picture(np.where((away < 0.13)[..., np.newaxis], np.array(spot, dtype=np.float64), pixels))


def carpet(random: np.random.Generator) -> Image.Image:
    """A woven rug with nested diamonds."""
    colours = palette(random, _one_of(random, "8c3b40 b5845a 4a4560 d0b890", "35596a b0604c cbb596 6a3f4a"))
    x, y = grid(0, TILE)
    repeats = int(random.integers(3, 5))
    away = np.abs((x * repeats) % 1 - 0.5) + np.abs((y * repeats) % 1 - 0.5)
    band = np.floor(away * 9).astype(np.int64) % len(colours)
    weave = 1 + 0.14 * np.sign(np.sin(x * TILE * np.pi / 2) * np.sin(y * TILE * np.pi / 2))
    return picture(np.array(colours, dtype=np.float64)[band] * (weave * grain(random, 0.12))[..., np.newaxis])


def facade(random: np.random.Generator) -> Image.Image:
    """The front of a building with rows of windows."""
    plaster, glass, frame = palette(
        random, _one_of(random, "c9b8a0 6b8aa5 efe8dc", "9aa7b1 4c647d dfe6ea", "b98972 70889a f0e4d8")
    )
    x, y = grid(0, TILE)
    u, v = (x * int(random.integers(5, 8))) % 1, (y * int(random.integers(4, 7))) % 1
    pane = (np.abs(u - 0.5) < 0.24) & (np.abs(v - 0.5) < 0.32)
    rim = (np.abs(u - 0.5) < 0.3) & (np.abs(v - 0.5) < 0.38)
    pixels = np.where(
        rim[..., np.newaxis], np.array(frame, dtype=np.float64), np.array(plaster, dtype=np.float64)
    )
    sheen = np.array(glass, dtype=np.float64) * (1.25 - 0.5 * v)[..., np.newaxis]
    return picture(np.where(pane[..., np.newaxis], sheen, pixels))


def chessboard(random: np.random.Generator) -> Image.Image:
    """Large dark and light squares of wood."""
    dark, light = palette(random, _one_of(random, "6b3f22 ecd3a4", "27272b f1efe8", "2f5d43 f0ead2"))
    x, y = grid(0, TILE)
    odd = (np.floor(x * 4) + np.floor(y * 4)) % 2 == 0
    return picture(
        np.where(odd[..., np.newaxis], np.array(dark, dtype=np.float64), np.array(light, dtype=np.float64))
    )


def _one_of(random: np.random.Generator, *families: str) -> str:
    """One of some families of colours."""
    return families[int(random.integers(len(families)))]
