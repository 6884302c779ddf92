"""Corruptions in a few lines each; every function takes a picture, a severity from 0 to 4, and draws."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from builders.shifts.drawing.pixels import Field, as_floats, noise


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
