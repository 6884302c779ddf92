"""What falls or flies: drops, flakes and grains in layers, from far, small and many to near, large and few.

Particle i of a layer appears when the scale passes its threshold and stays from then on. Where particles of a
layer overlap the strongest counts, so a layer's coverage never falls as the scale grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing.palettes import Colour
from builders.shifts.drawing.pixels import Field, laid_over, shade
from builders.shifts.weather.haze import Medium

MAX_SCALE = 2.5
FADE_IN = 0.4  # of the scale: how long a particle takes to appear
FINE = 320  # at least so many pixels along the shorter side while drawing


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Particles at one depth; lengths are shares of the picture's shorter side.

    count: how many there are in a square picture at the largest scale.
    length: of the streak that the motion leaves; 0 is a round particle.
    blur: how far out of focus they are.
    """

    depth: float
    count: int
    width: float
    colour: Colour
    opacity: float
    length: float = 0
    blur: float = 0


def fall(
    layer: Layer,
    medium: Medium,
    pixels: Field,
    scale: float,
    depth: Field,
    heading: float,
    draws: np.random.Generator,
) -> Field:
    """The pixels behind a layer of particles that move along `heading`, in radians clockwise from the right.

    What stands nearer than the layer hides it, and the medium between veils its colour.
    """
    share = _coverage(layer, (depth.shape[1], depth.shape[0]), scale, heading, draws)
    share *= ((depth - layer.depth) / 0.2 + 0.5).clip(0, 1)
    air = shade(medium.air)
    return laid_over(pixels, air + (shade(layer.colour) - air) * medium.arriving(scale * layer.depth), share)


def _coverage(
    layer: Layer, size: tuple[int, int], scale: float, heading: float, draws: np.random.Generator
) -> Field:
    """How much of each pixel the layer's particles cover, 0 to 1."""
    width, height = size
    short = min(size)
    fine = max(2, math.ceil(FINE / short))
    unit = short * fine
    count = round(layer.count * max(size) / short)
    x, y, large, turn, strong = draws.random((5, count))
    reach = layer.length + layer.width
    x = (x * (width / short + 2 * reach) - reach) * unit
    y = (y * (height / short + 2 * reach) - reach) * unit
    half = 0.5 * unit * layer.width * (0.6 + 0.8 * large**2)
    angle = heading + 0.06 * (turn - 0.5)
    run = 0.5 * unit * layer.length * (0.6 + 0.8 * large)
    shown = ((scale - np.arange(count) * (MAX_SCALE / count)) / FADE_IN).clip(0, 1)
    level = np.rint(255 * layer.opacity * (0.5 + 0.5 * strong) * shown).astype(np.int64)
    dx, dy = run * np.cos(angle), run * np.sin(angle)
    canvas = Image.new("L", (width * fine, height * fine))
    draw = ImageDraw.Draw(canvas)
    for i in np.argsort(level, kind="stable")[np.count_nonzero(level == 0) :].tolist():
        if layer.length:
            ends = (x[i] - dx[i], y[i] - dy[i], x[i] + dx[i], y[i] + dy[i])
            draw.line(ends, fill=int(level[i]), width=max(1, round(2 * half[i])))
        else:
            box = (x[i] - half[i], y[i] - half[i], x[i] + half[i], y[i] + half[i])
            draw.ellipse(box, fill=int(level[i]))
    covered = canvas.reduce(fine)
    if layer.blur:
        covered = covered.filter(ImageFilter.GaussianBlur(layer.blur * short))
    return np.asarray(covered, dtype=np.float32) / np.float32(255)
