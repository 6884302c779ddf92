"""One simple image operation for each style shift: what a style code alone does not give.

Each look takes the painted and the untouched picture (height x width x 3, in [0, 1]). Lines come from the
untouched one: they keep the object recognisable. Below the looks are the operations they are made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageDraw

from builders.shifts.drawing import Doubles as Field
from builders.shifts.drawing import as_doubles, as_picture, cloud, smooth_noise

Look: TypeAlias = Callable[[Field, Field, np.random.Generator], Field]

LUMA = np.array([0.299, 0.587, 0.114])
REFERENCE = 128  # pixels a side; widths of lines are given for it
SKIN = ((0.91, 0.72, 0.58), (0.78, 0.55, 0.4), (0.95, 0.8, 0.7), (0.64, 0.43, 0.3))
INK = np.array([0.1, 0.14, 0.2])


def cartoon(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Few flat, saturated colours inside thick black outlines."""
    tones = _saturated(0.35 * painted + 0.65 * untouched, 1.5)
    for _ in range(4):
        tones = _median(tones)
    flat = np.rint(tones * 3) / 3
    return np.asarray(flat * (1 - _outlines(untouched, 1.4))[..., np.newaxis])


def plush_toy(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Fur that frays the edges, soft light on stuffed forms, seams where they meet."""
    side, shape = max(painted.shape), painted.shape[:2]
    turn = _drift(rng, shape)
    reach = rng.random(shape) ** 2 * side / 24
    fur = _displaced(painted, reach * np.cos(turn), reach * np.sin(turn))
    pile = _strands(rng, turn, max(2, side // 20))
    stuffed = _relief(_blurred(_grey(untouched), side / 20))
    seam = _blurred(_outlines(untouched, 1.2), side / 80)
    return np.asarray(fur * (1.02 + 0.1 * pile + 1.5 * stuffed - 0.45 * seam)[..., np.newaxis])


def pencil_sketch(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Graphite: grey, hatched in more directions where it is darker, with drawn contours."""
    tone = 0.6 * _grey(painted) + 0.4 * _grey(untouched)
    side, shape = max(tone.shape), tone.shape
    y, x = np.mgrid[: shape[0], : shape[1]] * (128 / side)
    first = rng.uniform(0.5, 1.1)
    sketch = 0.93 + 0.06 * rng.random(shape)
    for layer, below in enumerate((0.85, 0.6, 0.35)):
        turn, wobble = first + 0.9 * layer, _noise(rng, 6, shape)
        wave = np.sin(1.7 * (x * math.cos(turn) + y * math.sin(turn)) + 3 * wobble)
        sketch = sketch * (1 - 0.25 * (wave + 1) * ((below - tone) * 4).clip(0, 1))
    sketch = sketch * (1 - 0.85 * _outlines(untouched, 0.8))
    return np.repeat(sketch[..., np.newaxis], 3, axis=2)


def painting(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Brush strokes along the edges of the picture, in its own colours, lit like thick paint."""
    side, (height, width) = max(painted.shape), painted.shape[:2]
    down, across = np.gradient(_blurred(_grey(untouched), side / 40))
    drift = _drift(rng, (height, width))
    turn = np.arctan2(across + 0.01 * np.sin(drift), -down + 0.01 * np.cos(drift))
    fine = (2 * width, 2 * height)  # drawn at twice the size, then halved: edges come out smooth
    canvas = as_picture(painted).resize(fine)
    draw = ImageDraw.Draw(canvas)
    for x, y in rng.uniform(0, (width, height), (1000, 2)):
        at = int(y), int(x)
        length, tone = side * rng.uniform(0.02, 0.05), rng.normal(1, 0.12)
        dx, dy = math.cos(turn[at]) * length, math.sin(turn[at]) * length
        ends = [(2 * (x - dx), 2 * (y - dy)), (2 * (x + dx), 2 * (y + dy))]
        draw.line(ends, fill=_colour(painted[at] * tone), width=max(2, side // 20))
    strokes = as_doubles(canvas.resize((width, height), Image.Resampling.BOX))
    return np.asarray(strokes + 0.5 * _relief(_grey(strokes))[..., np.newaxis])


def sculpture(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Pale stone without colour: forms in relief, lit from one side, and grain."""
    side, shape, form = max(painted.shape), painted.shape[:2], _grey(untouched)
    light = 0.25 * math.pi + rng.uniform(-0.6, 0.6)
    raised = 5 * _relief(_blurred(form, side / 64), light) + 6 * _relief(_blurred(form, side / 24), light)
    tone = 0.62 + 0.3 * (_blurred(_grey(painted), side / 100) - 0.5) + 0.25 * (form - 0.6)
    grain = cloud(rng, max(2, side // 4), 2, side)[: shape[0], : shape[1]] - 0.5
    tint = np.array([1.0, 0.985, 0.95]) * rng.uniform(0.94, 1.04)
    return np.asarray((tone + raised + 0.1 * grain)[..., np.newaxis] * tint)


def graffiti(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Spray on a brick wall: loud colours with speckled rims, black marker, drips."""
    side, shape = max(painted.shape), painted.shape[:2]
    loud = _saturated(painted, 2.0)
    reach, turn = rng.exponential(side / 60, shape), rng.uniform(0, 2 * math.pi, shape)
    marker = _outlines(untouched, 1.2)
    spray = _displaced(loud, reach * np.cos(turn), reach * np.sin(turn)) * (1 - marker)[..., np.newaxis]
    canvas = as_picture(spray)
    draw = ImageDraw.Draw(canvas)
    rim = np.argwhere(marker > 0.5)
    for y, x in rim[rng.integers(0, len(rim), 14)].tolist() if len(rim) else []:
        thick, length = side / 64 * rng.uniform(0.6, 1.4), side * rng.uniform(0.08, 0.3)
        draw.line([(x, y), (x, y + length)], fill=_colour(loud[y, x]), width=max(1, round(thick)))
    return np.asarray(as_doubles(canvas) * _bricks(rng, shape)[..., np.newaxis])


def video_game(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Large square pixels in few loud colours, with dark contours."""
    loud = _saturated(0.35 * painted + 0.65 * untouched, 1.5)
    drawn = as_picture(loud * (1 - 0.8 * _outlines(untouched, 1.0))[..., np.newaxis])
    cells = int(rng.integers(23, 28))
    few = np.rint(as_doubles(drawn.resize((cells, cells), Image.Resampling.BOX)) * 3) / 3
    return as_doubles(as_picture(few).resize(drawn.size, Image.Resampling.NEAREST))


def tattoo(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Dark ink on skin: contours and shade of the object, nothing of its colour."""
    side, shape = max(painted.shape), painted.shape[:2]
    pores = 0.94 + 0.12 * cloud(rng, max(2, side // 8), 3, side)[: shape[0], : shape[1], np.newaxis]
    skin = np.array(SKIN[rng.integers(len(SKIN))]) * pores
    tone = 0.5 * _grey(painted) + 0.5 * _grey(untouched)
    hollow = (_blurred(tone, side / 12) - tone).clip(0, 1)
    shade = (1.3 * (0.62 - tone) + 1.5 * hollow).clip(0, 0.85)
    ink = _blurred(np.maximum(_outlines(untouched, 1.3), shade), side / 250)[..., np.newaxis]
    return np.asarray(skin * (1 - ink) + INK * ink)


LOOKS: dict[str, Look] = {
    look.__name__: look
    for look in (cartoon, plush_toy, pencil_sketch, painting, sculpture, graffiti, video_game, tattoo)
}


def _noise(rng: np.random.Generator, cells: int, shape: tuple[int, ...]) -> Field:
    return smooth_noise(rng, cells, max(shape))[: shape[0], : shape[1]]


def _drift(rng: np.random.Generator, shape: tuple[int, ...]) -> Field:
    return 2 * math.pi * _noise(rng, 3, shape)


def _colour(pixel: Field) -> tuple[int, int, int]:
    red, green, blue = (pixel * 255).clip(0, 255).astype(int).tolist()
    return red, green, blue


def _grey(field: Field) -> Field:
    return np.asarray(field @ LUMA)


def _saturated(field: Field, factor: float) -> Field:
    neutral = _grey(field)[..., np.newaxis]
    return np.asarray((neutral + (field - neutral) * factor).clip(0, 1))


def _median(field: Field) -> Field:
    """The middle of each pixel and its neighbours, along and then across: spots go, edges stay."""
    for axis in (0, 1):
        before, after = np.roll(field, 1, axis), np.roll(field, -1, axis)
        low, high = np.minimum(before, after), np.maximum(before, after)
        field = np.maximum(low, np.minimum(high, field))
    return field


def _blurred(values: Field, sigma: float) -> Field:
    reach = max(1, math.ceil(2.5 * sigma))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        ends = [(reach, reach) if side == axis else (0, 0) for side in (0, 1)]
        padded = np.pad(values, ends, mode="edge")
        values = np.lib.stride_tricks.sliding_window_view(padded, len(kernel), axis=axis) @ kernel
    return values


def _outlines(field: Field, width: float) -> Field:
    """Return lines where colours meet, `width` pixels wide at the reference size: 1 on a line, 0 off it."""
    unit = max(field.shape[:2]) / REFERENCE
    slopes = [np.gradient(_blurred(field[..., channel], unit)) for channel in range(3)]
    steep = np.sqrt(np.sum(np.square(slopes), axis=(0, 1))) * unit
    line = ((steep - 0.07) / 0.08).clip(0, 1)
    return np.asarray((_blurred(line, width * unit) * 1.6 - 0.25).clip(0, 1))


def _relief(height: Field, turn: float = 0.25 * math.pi) -> Field:
    """Return the light on a surface of a given height, from a direction in radians."""
    down, across = np.gradient(height)
    return np.asarray(-(down * math.sin(turn) + across * math.cos(turn)))


def _displaced(field: Field, dx: Field, dy: Field) -> Field:
    """Each pixel taken from another one, at a distance in pixels."""
    height, width = field.shape[:2]
    y, x = np.mgrid[:height, :width]
    rows = np.rint(y + dy).clip(0, height - 1).astype(np.int64)
    columns = np.rint(x + dx).clip(0, width - 1).astype(np.int64)
    return np.asarray(field[rows, columns])


def _strands(rng: np.random.Generator, turn: Field, length: int) -> Field:
    """Noise drawn out along a direction at each pixel, with mean 0 and deviation 1."""
    noise = rng.random(turn.shape)
    steps = [_displaced(noise, step * np.cos(turn), step * np.sin(turn)) for step in range(length)]
    drawn = np.mean(steps, axis=0)
    return np.asarray((drawn - drawn.mean()) / drawn.std())


def _bricks(rng: np.random.Generator, shape: tuple[int, int]) -> Field:
    y, x = np.mgrid[: shape[0], : shape[1]]
    high = max(shape) / 13
    course = y / high + rng.random()
    bond = x / high / 2 + 0.5 * (course.astype(np.int64) % 2)
    joint = (course % 1 < 0.12) | (bond % 1 < 0.06)
    return np.where(joint, 0.72, 0.95 + 0.1 * rng.random(shape))
