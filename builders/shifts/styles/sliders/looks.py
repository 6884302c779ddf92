"""What a style code alone does not give: one simple image operation for each style shift.

Each takes the painted and the untouched picture (height x width x 3, in [0, 1]) and a random generator, and
gives the picture with the whole look. Lines come from the untouched picture: they keep the object
recognisable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageDraw

from builders.shifts.drawing.noise import Field, cloud, smooth_noise
from builders.shifts.styles.sliders.pixels import (
    blurred,
    bricks,
    displaced,
    grey,
    median,
    outlines,
    relief,
    saturated,
    strands,
    to_field,
    to_picture,
)

Look: TypeAlias = Callable[[Field, Field, np.random.Generator], Field]

SKIN = ((0.91, 0.72, 0.58), (0.78, 0.55, 0.4), (0.95, 0.8, 0.7), (0.64, 0.43, 0.3))
INK = np.array([0.1, 0.14, 0.2])


def cartoon(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Few flat, saturated colours inside thick black outlines."""
    tones = saturated(0.35 * painted + 0.65 * untouched, 1.5)
    for _ in range(4):
        tones = median(tones)
    flat = np.rint(tones * 3) / 3
    return np.asarray(flat * (1 - outlines(untouched, 1.4))[..., np.newaxis])


def plush_toy(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Fur that frays the edges, soft light on stuffed forms, seams where they meet."""
    side, shape = max(painted.shape), painted.shape[:2]
    turn = _drift(rng, shape)
    reach = rng.random(shape) ** 2 * side / 24
    fur = displaced(painted, reach * np.cos(turn), reach * np.sin(turn))
    pile = strands(rng, turn, max(2, side // 20))
    stuffed = relief(blurred(grey(untouched), side / 20))
    seam = blurred(outlines(untouched, 1.2), side / 80)
    return np.asarray(fur * (1.02 + 0.1 * pile + 1.5 * stuffed - 0.45 * seam)[..., np.newaxis])


def pencil_sketch(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Graphite: grey, hatched in more directions where it is darker, with drawn contours."""
    tone = 0.6 * grey(painted) + 0.4 * grey(untouched)
    side, shape = max(tone.shape), tone.shape
    y, x = np.mgrid[: shape[0], : shape[1]] * (128 / side)
    first = rng.uniform(0.5, 1.1)
    sketch = 0.93 + 0.06 * rng.random(shape)
    for layer, below in enumerate((0.85, 0.6, 0.35)):
        turn, wobble = first + 0.9 * layer, _noise(rng, 6, shape)
        wave = np.sin(1.7 * (x * math.cos(turn) + y * math.sin(turn)) + 3 * wobble)
        sketch = sketch * (1 - 0.25 * (wave + 1) * ((below - tone) * 4).clip(0, 1))
    sketch = sketch * (1 - 0.85 * outlines(untouched, 0.8))
    return np.repeat(sketch[..., np.newaxis], 3, axis=2)


def painting(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Brush strokes along the edges of the picture, in its own colours, lit like thick paint."""
    side, (height, width) = max(painted.shape), painted.shape[:2]
    down, across = np.gradient(blurred(grey(untouched), side / 40))
    drift = _drift(rng, (height, width))
    turn = np.arctan2(across + 0.01 * np.sin(drift), -down + 0.01 * np.cos(drift))
    fine = (2 * width, 2 * height)  # drawn at twice the size, then halved: edges come out smooth
    canvas = to_picture(painted).resize(fine)
    draw = ImageDraw.Draw(canvas)
    for x, y in rng.uniform(0, (width, height), (1000, 2)):
        at = int(y), int(x)
        length, tone = side * rng.uniform(0.02, 0.05), rng.normal(1, 0.12)
        dx, dy = math.cos(turn[at]) * length, math.sin(turn[at]) * length
        ends = [(2 * (x - dx), 2 * (y - dy)), (2 * (x + dx), 2 * (y + dy))]
        draw.line(ends, fill=_colour(painted[at] * tone), width=max(2, side // 20))
    strokes = to_field(canvas.resize((width, height), Image.Resampling.BOX))
    return np.asarray(strokes + 0.5 * relief(grey(strokes))[..., np.newaxis])


def sculpture(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Pale stone without colour: forms in relief, lit from one side, and grain."""
    side, shape, form = max(painted.shape), painted.shape[:2], grey(untouched)
    light = 0.25 * math.pi + rng.uniform(-0.6, 0.6)
    raised = 5 * relief(blurred(form, side / 64), light) + 6 * relief(blurred(form, side / 24), light)
    tone = 0.62 + 0.3 * (blurred(grey(painted), side / 100) - 0.5) + 0.25 * (form - 0.6)
    grain = cloud(rng, max(2, side // 4), 2, side)[: shape[0], : shape[1]] - 0.5
    tint = np.array([1.0, 0.985, 0.95]) * rng.uniform(0.94, 1.04)
    return np.asarray((tone + raised + 0.1 * grain)[..., np.newaxis] * tint)


def graffiti(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Spray on a brick wall: loud colours with speckled rims, black marker, drips."""
    side, shape = max(painted.shape), painted.shape[:2]
    loud = saturated(painted, 2.0)
    reach, turn = rng.exponential(side / 60, shape), rng.uniform(0, 2 * math.pi, shape)
    marker = outlines(untouched, 1.2)
    spray = displaced(loud, reach * np.cos(turn), reach * np.sin(turn)) * (1 - marker)[..., np.newaxis]
    canvas = to_picture(spray)
    draw = ImageDraw.Draw(canvas)
    rim = np.argwhere(marker > 0.5)
    for y, x in rim[rng.integers(0, len(rim), 14)].tolist() if len(rim) else []:
        thick, length = side / 64 * rng.uniform(0.6, 1.4), side * rng.uniform(0.08, 0.3)
        draw.line([(x, y), (x, y + length)], fill=_colour(loud[y, x]), width=max(1, round(thick)))
    return np.asarray(to_field(canvas) * bricks(rng, shape)[..., np.newaxis])


def video_game(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Large square pixels in few loud colours, with dark contours."""
    loud = saturated(0.35 * painted + 0.65 * untouched, 1.5)
    drawn = to_picture(loud * (1 - 0.8 * outlines(untouched, 1.0))[..., np.newaxis])
    cells = int(rng.integers(23, 28))
    few = np.rint(to_field(drawn.resize((cells, cells), Image.Resampling.BOX)) * 3) / 3
    return to_field(to_picture(few).resize(drawn.size, Image.Resampling.NEAREST))


def tattoo(painted: Field, untouched: Field, rng: np.random.Generator) -> Field:
    """Dark ink on skin: contours and shade of the object, nothing of its colour."""
    side, shape = max(painted.shape), painted.shape[:2]
    pores = 0.94 + 0.12 * cloud(rng, max(2, side // 8), 3, side)[: shape[0], : shape[1], np.newaxis]
    skin = np.array(SKIN[rng.integers(len(SKIN))]) * pores
    tone = 0.5 * grey(painted) + 0.5 * grey(untouched)
    hollow = (blurred(tone, side / 12) - tone).clip(0, 1)
    shade = (1.3 * (0.62 - tone) + 1.5 * hollow).clip(0, 0.85)
    ink = blurred(np.maximum(outlines(untouched, 1.3), shade), side / 250)[..., np.newaxis]
    return np.asarray(skin * (1 - ink) + INK * ink)


LOOKS: dict[str, Look] = {
    look.__name__: look
    for look in (cartoon, plush_toy, pencil_sketch, painting, sculpture, graffiti, video_game, tattoo)
}


def _noise(rng: np.random.Generator, cells: int, shape: tuple[int, ...]) -> Field:
    return smooth_noise(rng, cells, max(shape))[: shape[0], : shape[1]]


def _drift(rng: np.random.Generator, shape: tuple[int, ...]) -> Field:
    """A direction at each pixel that changes slowly over the picture."""
    return 2 * math.pi * _noise(rng, 3, shape)


def _colour(pixel: Field) -> tuple[int, int, int]:
    red, green, blue = (pixel * 255).clip(0, 255).astype(int).tolist()
    return red, green, blue
