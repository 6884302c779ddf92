"""Styles that were drawn and measured for the style bank and not chosen; no dataset uses them."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from builders.shifts.drawing.noise import FINE, cells, cloud, finished, grid, smooth_noise, stretched, warp
from builders.shifts.drawing.palettes import Colour, flat, palette, pick, picture, ramp

from .parts import hexagons


def brush_strokes(rng: np.random.Generator) -> Image.Image:
    """Short thick strokes along a swirling flow, night blue and yellow."""
    colours = palette(rng, "1a3f86 1f5fa8 2f7cc0 4ea3d8 f2c14e 16336e")
    image = Image.new("RGB", (FINE, FINE), colours[1])
    draw = ImageDraw.Draw(image)
    flow = smooth_noise(rng, int(rng.integers(2, 5))) * rng.uniform(5, 9)
    tone = smooth_noise(rng, 4) * len(colours)
    length, width = rng.uniform(22, 40), int(rng.integers(7, 13))
    for x, y in rng.uniform(0, FINE, (2600, 2)):
        turn = flow[int(y), int(x)]
        number = int(tone[int(y), int(x)] + rng.uniform(-0.8, 0.8)) % len(colours)
        dx, dy = math.cos(turn) * length / 2, math.sin(turn) * length / 2
        draw.line([(x - dx, y - dy), (x + dx, y + dy)], fill=_lighter(rng, colours[number]), width=width)
    return finished(image)


def crosshatch(rng: np.random.Generator) -> Image.Image:
    """Sepia pen lines in several directions, denser where it is darker."""
    paper, ink = palette(rng, "f3e6c8 3a2314")
    image = Image.new("RGB", (FINE, FINE), paper)
    draw = ImageDraw.Draw(image)
    shade = smooth_noise(rng, int(rng.integers(3, 6)))
    base = rng.uniform(0, math.pi)
    for layer, floor in enumerate((0.15, 0.4, 0.6)):
        turn = base + layer * math.pi / 3
        for x, y in rng.uniform(0, FINE, (1500, 2)):
            if shade[int(y), int(x)] < floor:
                continue
            half = rng.uniform(12, 30)
            dx, dy = math.cos(turn) * half, math.sin(turn) * half
            draw.line([(x - dx, y - dy), (x + dx, y + dy)], fill=ink, width=2)
    return finished(image)


def cubes(rng: np.random.Generator) -> Image.Image:
    """Stacked cubes in three tones: every hexagon cut into three rhombi."""
    tones = palette(rng, "f7f3e9 f26b21 4a4e69")
    x, y = grid(float(rng.integers(0, 6)) * np.pi / 3 + rng.uniform(-0.15, 0.15))
    columns = rng.uniform(4, 8)
    _, dx, dy = hexagons(x * columns, y * columns)
    third = np.floor((np.arctan2(dy, dx) / (2 * np.pi) + 1 / 12) * 3).astype(np.int64)
    return finished(picture(flat(third, tones)))


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


def fingerprint_lines(rng: np.random.Generator) -> Image.Image:
    """Fine parallel ridges round a loop, black on white."""
    paper, ink = palette(rng, "f7f7f7 101010")
    x, y = grid(rng.uniform(0, math.pi))
    bend = smooth_noise(rng, 3) * rng.uniform(0.2, 0.5)
    ridges = np.sin(2 * np.pi * (np.hypot(x, y * rng.uniform(0.5, 0.9)) + bend) * rng.uniform(18, 28))
    return finished(picture(ramp(0.5 + 2 * ridges, [ink, paper])))


def flames(rng: np.random.Generator) -> Image.Image:
    """Tongues of fire from yellow through red to black."""
    colours = palette(rng, "0d0202 3a0602 a81a02 ff8a00 fff0a0", turn=0.01)
    x, y = grid(rng.uniform(-0.25, 0.25))
    dx, _ = warp(rng, int(rng.integers(4, 8)), rng.uniform(0.06, 0.12))
    tongues = np.abs(np.sin(np.pi * (x + dx + 0.15 * smooth_noise(rng, 3)) * rng.uniform(4, 7)))
    heat = tongues * 0.7 + cloud(rng, 5, 4) * 0.9 + y * rng.uniform(0.5, 0.9) - 0.3
    return finished(picture(ramp(stretched(heat), colours)))


def grey_static(rng: np.random.Generator) -> Image.Image:
    """Television snow: grey noise without a larger form."""
    coarse = int(rng.choice([1, 2, 4]))
    level = rng.uniform(40, 215, (FINE // coarse, FINE // coarse, 1)).repeat(3, axis=2)
    return finished(picture(level.repeat(coarse, axis=0).repeat(coarse, axis=1)))


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


def mosaic(rng: np.random.Generator) -> Image.Image:
    """Small loose square stones, ultramarine and gold, laid along a flowing motif."""
    colours = palette(rng, "0a1f7a 1e4fd8 5fa8ff f5c518 ffe680 0d0d3b")
    columns = int(rng.integers(16, 24))
    stone = cells(rng, columns, *grid(), looseness=0.35)
    down, across = np.indices((columns, columns)).reshape(2, -1) / columns
    motif = np.sin(across * rng.uniform(6, 12) + 3 * np.sin(down * rng.uniform(5, 10) + rng.uniform(0, 6)))
    order = (stretched(motif) * (len(colours) - 1) + rng.uniform(-0.6, 0.6, columns**2)).clip(0)
    pixels = flat(order.astype(np.int64)[stone.number], colours)
    joint = stone.second - stone.first < 0.007
    return finished(picture(np.where(joint[..., np.newaxis], np.array([16.0, 20.0, 70.0]), pixels)))


def nebula(rng: np.random.Generator) -> Image.Image:
    """Glowing clouds of violet and pink with a few stars."""
    colours = palette(rng, "0c021c 2b0a5a 7a1fc0 ff5fb8 fff0fa")
    bright = cloud(rng, int(rng.integers(3, 6)), 5)
    pixels = ramp(stretched(bright + 0.6 * cloud(rng, 6, 4) ** 2), colours)
    stars = rng.random(bright.shape) > 0.9985
    return finished(picture(np.where(stars[..., np.newaxis], 255.0, pixels)))


def neon_grid(rng: np.random.Generator) -> Image.Image:
    """Glowing pink and cyan lines in perspective on near black."""
    night, pink, cyan = palette(rng, "12021f ff2bd6 18f0ff")
    image = Image.new("RGB", (FINE, FINE))
    draw = ImageDraw.Draw(image)
    horizon, vanish = rng.uniform(-0.6, -0.1) * FINE, rng.uniform(0.2, 0.8) * FINE
    lines = int(rng.integers(10, 18))
    for number in range(-2 * lines, 3 * lines):
        draw.line([(vanish, horizon), (vanish + (number - lines / 2) * 120, FINE)], fill=pink, width=5)
    for number in range(lines):
        y = FINE * (number / lines) ** rng.uniform(1.2, 1.3)
        draw.line([(0, y), (FINE, y)], fill=cyan, width=5)
    halo = image.filter(ImageFilter.GaussianBlur(9))
    ground = Image.new("RGB", (FINE, FINE), night)
    turned = ImageChops.add(ImageChops.add(ground, ImageChops.add(halo, halo)), image)
    return finished(turned.rotate(90 * int(rng.integers(4))))


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


def stained_glass(rng: np.random.Generator) -> Image.Image:
    """Jewel-coloured cells between black leads, each pane a little uneven."""
    colours = palette(rng, "b3001b 0047ab f2a900 00843d 5b2a86 e4572e")
    columns = int(rng.integers(5, 9))
    pane = cells(rng, columns, *grid(rng.uniform(0, np.pi)))
    panes = flat(rng.integers(0, len(colours), columns**2)[pane.number], colours)
    light = 0.8 + 0.4 * smooth_noise(rng, 8)
    lead = pane.second - pane.first < rng.uniform(0.008, 0.014)
    return finished(picture(np.where(lead[..., np.newaxis], 12.0, panes * light[..., np.newaxis])))


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


def waves(rng: np.random.Generator) -> Image.Image:
    """Rolling bands of blue with white crests."""
    colours = palette(rng, "0b4fb0 1467c8 2a86dc 3f9be6 eaf6ff 0b4fb0")
    x, y = grid(rng.uniform(-0.35, 0.35))
    swell = sum(rng.uniform(0.01, 0.04) * np.sin(2 * np.pi * (n * x + rng.random())) for n in (1, 2, 3, 5))
    bands = rng.uniform(5, 10)
    height = (y + swell) * bands
    return finished(picture(ramp(height % 1, colours)))


def _lighter(rng: np.random.Generator, colour: Colour) -> Colour:
    change = float(rng.uniform(0.85, 1.2))
    red, green, blue = (min(255, round(part * change)) for part in colour)
    return red, green, blue
