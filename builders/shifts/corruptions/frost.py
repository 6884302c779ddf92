"""Ice on the lens: feathers of crystals that grow from the rim towards the middle."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing.pixels import Field, as_floats, laid_over, noise, shade

SIDE = 320  # of the drawn crystals, along the shorter side
FEATHERS = 48
GAP = 9  # between twigs, in drawn pixels
MILKY, CLEAR = shade((138, 168, 198)), shade((246, 251, 255))


def frost(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The picture behind ice; with severity the ice reaches farther in and grows thicker."""
    reach, thick = ((0.45, 0.55), (0.65, 0.65), (0.85, 0.74), (1.05, 0.82), (1.25, 0.9))[severity]
    ice = _crystals(picture.size, draws)
    width, height = picture.size
    x, y = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    rim = np.maximum(np.abs(x), np.abs(y)[:, np.newaxis])
    grown = (rim - 0.9 + reach + 0.5 * (noise(draws, picture.size, 4) - 0.5)) / 0.5
    colour = MILKY + (CLEAR - MILKY) * ice[..., np.newaxis]
    return laid_over(as_floats(picture), colour, thick * grown.clip(0, 1) * (0.5 + 0.5 * ice))


def _crystals(size: tuple[int, int], draws: np.random.Generator) -> Field:
    """How bright the ice is, 0 to 1: feathers of several sizes on a milky ground."""
    short = min(size)
    wide, high = round(SIDE * size[0] / short), round(SIDE * size[1] / short)
    canvas = Image.new("L", (wide, high))
    draw = ImageDraw.Draw(canvas)
    for number in range(round(FEATHERS * max(size) / short)):
        at, side, length, turn, bright = draws.random(5)
        # Most feathers start at the rim and grow inwards, the others anywhere and anyhow.
        if number % 3:
            x, y, inward = _on_rim(at, wide, high)
            heading = inward + 1.6 * (turn - 0.5)
        else:
            x, y, heading = at * wide, side * high, 2 * math.pi * turn
        level = round(110 + 145 * bright)
        _feather(draw, x, y, heading, SIDE * (0.12 + 0.35 * length**2), level)
    lines = as_floats(canvas.resize(size, Image.Resampling.BOX))
    glow = as_floats(canvas.filter(ImageFilter.GaussianBlur(4)).resize(size, Image.Resampling.BOX))
    return np.asarray((lines + 0.3 * glow + 0.35 * (noise(draws, size, 8) - 0.4)).clip(0, 1))


def _on_rim(at: float, wide: int, high: int) -> tuple[float, float, float]:
    """The place at a share of the way round the rim, and the direction inwards."""
    way = at * 2 * (wide + high)
    if way < wide:
        return way, 0, math.pi / 2
    if way < 2 * wide:
        return way - wide, high, -math.pi / 2
    if way < 2 * wide + high:
        return 0, way - 2 * wide, 0
    return wide, way - 2 * wide - high, math.pi


def _feather(
    draw: ImageDraw.ImageDraw, x: float, y: float, heading: float, length: float, level: int
) -> None:
    """A stem with twigs at 60 degrees on both sides, shorter towards its tip; twigs are feathers too."""
    dx, dy = math.cos(heading), math.sin(heading)
    width = 1 + round(length / 60)
    draw.line((x, y, x + length * dx, y + length * dy), fill=level, width=width)
    for step in range(GAP, int(length), GAP):
        for side in (-1, 1):
            turned, twig = heading + side * math.pi / 3, 0.45 * (length - step)
            _feather(draw, x + step * dx, y + step * dy, turned, twig, round(0.9 * level))
