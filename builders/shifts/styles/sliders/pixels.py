"""Simple operations on pictures as numbers in [0, 1]: what the looks are put together from."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from builders.shifts.drawing.noise import Field

LUMA = np.array([0.299, 0.587, 0.114])
REFERENCE = 128  # pixels a side; widths of lines are given for it


def to_field(picture: Image.Image) -> Field:
    """A picture as height x width x 3 numbers."""
    return np.asarray(picture.convert("RGB"), dtype=np.float64) / 255


def to_picture(field: Field) -> Image.Image:
    """Numbers as a picture; what lies outside [0, 1] is cut."""
    return Image.fromarray(np.rint(field.clip(0, 1) * 255).astype(np.uint8))


def grey(field: Field) -> Field:
    """How bright each pixel is."""
    return np.asarray(field @ LUMA)


def saturated(field: Field, factor: float) -> Field:
    """The same brightness with stronger colours."""
    neutral = grey(field)[..., np.newaxis]
    return np.asarray((neutral + (field - neutral) * factor).clip(0, 1))


def median(field: Field) -> Field:
    """The middle of each pixel and its neighbours, along and then across: spots go, edges stay."""
    for axis in (0, 1):
        before, after = np.roll(field, 1, axis), np.roll(field, -1, axis)
        low, high = np.minimum(before, after), np.maximum(before, after)
        field = np.maximum(low, np.minimum(high, field))
    return field


def blurred(values: Field, sigma: float) -> Field:
    """Gaussian blur of one channel."""
    reach = max(1, math.ceil(2.5 * sigma))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    for axis in (0, 1):
        ends = [(reach, reach) if side == axis else (0, 0) for side in (0, 1)]
        padded = np.pad(values, ends, mode="edge")
        values = np.lib.stride_tricks.sliding_window_view(padded, len(kernel), axis=axis) @ kernel
    return values


def outlines(field: Field, width: float) -> Field:
    """Where colours meet, as lines of about so many pixels at the reference size: 1 on a line, 0 off it."""
    unit = max(field.shape[:2]) / REFERENCE
    slopes = [np.gradient(blurred(field[..., channel], unit)) for channel in range(3)]
    steep = np.sqrt(np.sum(np.square(slopes), axis=(0, 1))) * unit
    line = ((steep - 0.07) / 0.08).clip(0, 1)
    return np.asarray((blurred(line, width * unit) * 1.6 - 0.25).clip(0, 1))


def relief(height: Field, turn: float = 0.25 * math.pi) -> Field:
    """How much light falls on a surface of some height, from a direction in radians."""
    down, across = np.gradient(height)
    return np.asarray(-(down * math.sin(turn) + across * math.cos(turn)))


def displaced(field: Field, dx: Field, dy: Field) -> Field:
    """Each pixel taken from another one, so many pixels away."""
    height, width = field.shape[:2]
    y, x = np.mgrid[:height, :width]
    rows = np.rint(y + dy).clip(0, height - 1).astype(np.int64)
    columns = np.rint(x + dx).clip(0, width - 1).astype(np.int64)
    return np.asarray(field[rows, columns])


def strands(rng: np.random.Generator, turn: Field, length: int) -> Field:
    """Noise drawn out along a direction at each pixel, with mean 0 and deviation 1."""
    noise = rng.random(turn.shape)
    steps = [displaced(noise, step * np.cos(turn), step * np.sin(turn)) for step in range(length)]
    drawn = np.mean(steps, axis=0)
    return np.asarray((drawn - drawn.mean()) / drawn.std())


def bricks(rng: np.random.Generator, shape: tuple[int, int]) -> Field:
    """A brick wall as a factor of brightness: dark joints, rough faces."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    high = max(shape) / 13
    course = y / high + rng.random()
    bond = x / high / 2 + 0.5 * (course.astype(np.int64) % 2)
    joint = (course % 1 < 0.12) | (bond % 1 < 0.06)
    return np.where(joint, 0.72, 0.95 + 0.1 * rng.random(shape))
