"""Corruptions by ice and drops on the lens."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing.noise import Field as Doubles
from builders.shifts.drawing.noise import cells, cloud, grid
from builders.shifts.drawing.pixels import Field, as_floats, laid_over, noise, shade
from shiftdata.stable import rng

PLATES = 3  # of ice, of which every picture sees a part
PLATE = 400
MILKY, CLEAR = shade((150, 178, 205)), shade((248, 252, 255))
DROPS_SIDE = 384  # at least so many pixels along the shorter side while drawing
SPLASHES = 100
WATER, MUD = shade((190, 214, 222)), shade((112, 80, 46))


def frost(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The picture behind ice; with severity the ice reaches farther in and grows thicker."""
    reach, thick = ((0.4, 0.6), (0.65, 0.68), (0.9, 0.76), (1.15, 0.84), (1.4, 0.92))[severity]
    ice = _part_of_a_plate(picture.size, draws)
    width, height = picture.size
    x, y = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    rim = np.maximum(np.abs(x), np.abs(y)[:, np.newaxis])
    grown = (rim - 1 + reach + 0.6 * (noise(draws, picture.size, 4) - 0.5) + 0.5 * (ice - 0.5)) / 0.5
    colour = MILKY + (CLEAR - MILKY) * ice[..., np.newaxis]
    return laid_over(as_floats(picture), colour, thick * grown.clip(0, 1) * (0.45 + 0.55 * ice))


def _part_of_a_plate(size: tuple[int, int], draws: np.random.Generator) -> Field:
    """Return the brightness of ice, 0 to 1: two thirds of a plate along the longer side, turned at random."""
    number, turn, *corner = draws.random(4)
    plate = _plate(int(PLATES * number)).transpose(Image.Transpose(int(7 * turn)))
    wide, high = (PLATE * 0.66 * side / max(size) for side in size)
    x, y = corner[0] * (PLATE - wide), corner[1] * (PLATE - high)
    return as_floats(plate.resize(size, Image.Resampling.BOX, box=(x, y, x + wide, y + high)))


@cache
def _plate(number: int) -> Image.Image:
    """A plate of frosted glass, from dark to bright: ferns that grew over each other, and needles between."""
    draws = rng("frost", number)
    bright = 0.3 * cloud(draws, 5, 4, PLATE)
    for columns in (3, 5, 8):
        bright = np.maximum(bright, _ferns(columns, draws))
    grain = cloud(draws, 50, 2, PLATE)
    return Image.fromarray(np.rint(255 * (bright * (0.5 + 0.7 * grain)).clip(0, 1)).astype(np.uint8))


def _ferns(columns: int, draws: np.random.Generator) -> Doubles:
    """Grains of ice, each a fern: twigs leave a stem on both sides, and finer ones leave the twigs."""
    x, y = grid(side=PLATE)
    bend = 0.35 / columns
    x = x + bend * (cloud(draws, columns, 3, PLATE) - 0.5)
    y = y + bend * (cloud(draws, columns, 3, PLATE) - 0.5)
    grain = cells(draws, columns, x + 0.5, y + 0.5)
    turn = draws.uniform(0, 2 * math.pi, columns**2)[grain.number]
    dx, dy = columns * grain.dx, columns * grain.dy
    along, aside = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
    side = np.abs(aside)
    ragged = cloud(draws, 8 * columns, 2, PLATE)
    twig = _ridge(9 * (along - 0.65 * side) + 0.6 * ragged) ** 2
    fine = _ridge(26 * (along + 0.8 * side) + ragged) ** 2
    stem = np.exp(-side / 0.02)
    fade = (1.25 - 1.1 * side - 0.35 * np.abs(along)).clip(0, 1)
    return np.asarray(np.maximum(stem, fade * (0.25 + twig * (0.45 + 0.5 * fine))) * (0.5 + 0.7 * ragged))


def _ridge(way: Doubles) -> Doubles:
    """1 at each whole number, 0 halfway between."""
    return np.asarray(np.abs(2 * (way - np.floor(way)) - 1))


def spatter(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The picture behind drops; a drop that is there stays at every higher severity."""
    shown, share = ((0.17, 0.36), (0.29, 0.38), (0.45, 0.4), (0.72, 0.9), (1.0, 0.95))[severity]
    height = _drops(picture.size, shown, draws)
    body = (height * 2.5).clip(0, 1)[..., np.newaxis]
    down, right = np.gradient(height)
    light = (-(down + right) * min(picture.size) / 60).clip(-0.25, 0.35)[..., np.newaxis]
    liquid, gloss = (WATER, 0.55) if severity < 3 else (MUD, 0.35)
    pixels = as_floats(picture)
    return np.asarray(pixels + body * (share * (liquid - pixels) + gloss * light))


def _drops(size: tuple[int, int], shown: float, draws: np.random.Generator) -> Field:
    """Return the height of the liquid: splashes, each a drop with smaller ones flung from it."""
    short = min(size)
    fine = max(1, math.ceil(DROPS_SIDE / short))
    unit = fine * short
    canvas = Image.new("L", (size[0] * fine, size[1] * fine))
    draw = ImageDraw.Draw(canvas)
    count = round(SPLASHES * max(size) / short)
    for number in range(count):
        x, y, large, way = draws.random(4)
        flung = draws.random((3, 9))
        if number >= shown * count:
            break
        x, y, radius = x * canvas.width, y * canvas.height, unit * (0.008 + 0.035 * large**3)
        draw.circle((x, y), radius, fill=255)
        for far, turn, small in flung.T.tolist():
            angle = 2 * math.pi * way + 1.2 * (turn - 0.5)
            reach = radius * (1 + 6 * far)
            drop = radius * (0.12 + 0.4 * small) * (1.1 - far)
            draw.circle((x + reach * math.cos(angle), y + reach * math.sin(angle)), drop, fill=255)
    return as_floats(canvas.filter(ImageFilter.GaussianBlur(0.007 * unit)).reduce(fine))
