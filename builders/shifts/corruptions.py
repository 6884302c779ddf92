"""Common corruptions in five severities: `corrupt(name, picture, severity, key=...)`.

Those that RLSbench takes from Hendrycks and Dietterich (2019); code and figures are our own. Lengths go with
the picture's side, so that 32 and 256 pixels look alike.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from builders.shifts.drawing.pixels import (
    Field,
    Key,
    as_floats,
    as_picture,
    check_picture,
    laid_over,
    noise,
    shade,
)
from shiftdata.errors import InputError, not_found
from shiftdata.stable import rng

SEVERITIES = (1, 2, 3, 4, 5)
ICE_SIDE = 320  # of the drawn crystals, along the shorter side
FEATHERS = 48
GAP = 9  # between twigs, in drawn pixels
MILKY, CLEAR = shade((138, 168, 198)), shade((246, 251, 255))
DROPS_SIDE = 384  # at least so many pixels along the shorter side while drawing
SPLASHES = 60
WATER, MUD = shade((190, 214, 222)), shade((112, 80, 46))


def contrast(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Every colour nearer to the picture's mean colour."""
    kept = (0.5, 0.36, 0.25, 0.15, 0.07)[severity]
    pixels = as_floats(picture)
    mean = pixels.mean(axis=(0, 1))
    return np.asarray(mean + kept * (pixels - mean))


def saturate(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Colours too strong: saturation moved towards full, hue and value kept; grey stays grey."""
    amount = (0.25, 0.45, 0.65, 0.85, 1.0)[severity]
    pixels = as_floats(picture)
    value = pixels.max(axis=-1, keepdims=True)
    saturation = (value - pixels.min(axis=-1, keepdims=True)) / np.maximum(value, 1e-6)
    # Where there is next to no colour little is added, so as not to make a hue of noise.
    factor = 1 + amount * (1 - saturation) / (saturation + 0.05)
    return np.asarray(value - (value - pixels) * factor)


def pixelate(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Fewer pixels, each drawn as a block: of 32 along a side 23 to 8 are left, of 256 as many as 81 to 28.

    A picture whose edges fall on the borders of the blocks may lose less than at the severity before.
    """
    share = 2.9 * min(picture.size) ** -0.4 * 0.77**severity
    rows, columns = _overlaps(picture.height, share), _overlaps(picture.width, share)
    # Products of two only: with more, einsum asks a BLAS, whose last bit may depend on the number of threads.
    blocks = np.einsum("ar,rcd->acd", rows / rows.sum(axis=1, keepdims=True), as_floats(picture))
    blocks = np.einsum("bc,acd->abd", columns / columns.sum(axis=1, keepdims=True), blocks)
    return np.asarray(np.einsum("bc,rbd->rcd", columns, np.einsum("ar,abd->rbd", rows, blocks)))


def _overlaps(pixels: int, share: float) -> Field:
    """How much of each pixel lies in each of equal blocks along a side."""
    edges, at = np.linspace(0, pixels, round(pixels * share) + 1, dtype=np.float32), np.arange(pixels)
    overlap = np.minimum(edges[1:, np.newaxis], at + 1) - np.maximum(edges[:-1, np.newaxis], at)
    return np.asarray(overlap.clip(0, 1), dtype=np.float32)


def motion_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The camera moves along a straight line while the shutter is open."""
    length = (0.025, 0.045, 0.07, 0.105, 0.15)[severity] * min(picture.size)
    angle = draws.uniform(0, math.pi)
    way = np.linspace(-length / 2, length / 2, 2 * math.ceil(length) + 1)
    margin = math.ceil(length / 2) + 1
    padded = np.pad(as_floats(picture), ((margin, margin), (margin, margin), (0, 0)), mode="edge")
    total = np.zeros((picture.height, picture.width, 3), dtype=np.float32)
    for step in way.tolist():
        total += _moved(padded, margin, step * math.cos(angle), step * math.sin(angle))
    return total / np.float32(len(way))


def _moved(padded: Field, margin: int, x: float, y: float) -> Field:
    """The middle of a padded picture, seen from a place that is x columns and y rows away, between pixels."""
    left, top = math.floor(x), math.floor(y)
    height, width = padded.shape[0] - 2 * margin, padded.shape[1] - 2 * margin
    row, column = margin + top, margin + left
    part = padded[row : row + height + 1, column : column + width + 1]
    part = part[:, :-1] + np.float32(x - left) * (part[:, 1:] - part[:, :-1])
    return part[:-1] + np.float32(y - top) * (part[1:] - part[:-1])


def fog(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """White clouds of uneven density, without depth; `builders.shifts.weather` has a fog that knows depth."""
    amount = (0.5, 0.8, 1.2, 1.8, 2.6)[severity]
    cloud = 0.5 + 0.5 * noise(draws, picture.size, 3, octaves=5)[..., np.newaxis]
    return np.asarray((as_floats(picture) + amount * cloud) / (1 + amount))


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
    wide, high = round(ICE_SIDE * size[0] / short), round(ICE_SIDE * size[1] / short)
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
        _feather(draw, x, y, heading, ICE_SIDE * (0.12 + 0.35 * length**2), level)
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


_DRAW = {draw.__name__: draw for draw in (contrast, fog, frost, motion_blur, pixelate, saturate, spatter)}

CORRUPTIONS = tuple(_DRAW)


def corrupt(name: str, picture: Image.Image, severity: int, *, key: Key) -> Image.Image:
    """The RGB picture under the corruption `name`; equal arguments give equal pixels.

    `key` names the random draws: seed, dataset, content, never the severity, so that the same ice, drops and
    direction grow from one severity to the next.
    """
    if name not in CORRUPTIONS:
        raise not_found("corruption", name, CORRUPTIONS)
    check_picture(picture)
    if severity not in SEVERITIES:
        raise InputError(f"a severity must be one of {SEVERITIES}, got {severity!r}")
    return as_picture(_DRAW[name](picture, int(severity) - 1, rng("corruption", name, *key)))
