"""Drops on the lens: water at severities 1 to 3, mud at 4 and 5."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing.pixels import Field, as_floats, shade

SIDE = 384  # at least so many pixels along the shorter side while drawing
SPLASHES = 60
WATER, MUD = shade((190, 214, 222)), shade((112, 80, 46))


def spatter(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The picture behind drops; a drop that is there stays at every higher severity."""
    shown, share = ((0.2, 0.25), (0.33, 0.27), (0.48, 0.3), (0.76, 0.94), (1.0, 0.96))[severity]
    height = _drops(picture.size, shown, draws)
    body = (height * 2.5).clip(0, 1)[..., np.newaxis]
    down, right = np.gradient(height)
    light = (-(down + right) * min(picture.size) / 60).clip(-0.25, 0.35)[..., np.newaxis]
    liquid, gloss = (WATER, 0.55) if severity < 3 else (MUD, 0.35)
    pixels = as_floats(picture)
    return np.asarray(pixels + body * (share * (liquid - pixels) + gloss * light))


def _drops(size: tuple[int, int], shown: float, draws: np.random.Generator) -> Field:
    """How high the liquid stands: the first of all splashes, each a drop with smaller ones flung from it."""
    short = min(size)
    fine = max(1, math.ceil(SIDE / short))
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
