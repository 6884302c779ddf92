"""Corruptions by files and screens: elastic_transform, pixelate, jpeg_compression."""

from __future__ import annotations

import io
import math

import numpy as np
from PIL import Image

from builders.shifts.corruptions.scaling import noisy, places, sampled
from builders.shifts.drawing.pixels import Field, as_floats, noise


def elastic_transform(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The picture on rubber, drawn this way and that."""
    amount = (0.05, 0.08, 0.115, 0.155, 0.2)[severity] * min(picture.size)
    columns, rows = places(picture)
    x, y = (noise(draws, picture.size, 5, octaves=2) - 0.5 for _ in range(2))
    return sampled(as_floats(picture), columns + amount * x, rows + amount * y)


def pixelate(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Fewer pixels, each drawn as a block: of 32 along a side 22 to 5 are left, of 256 77 to 18."""
    share = 2.75 * min(picture.size) ** -0.4 * 0.7**severity
    few = picture.resize([round(side * share) for side in picture.size], Image.Resampling.BOX)
    return as_floats(few.resize(picture.size, Image.Resampling.NEAREST))


def jpeg_compression(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Stored as a JPEG file that is too small for it; better ones in a small picture, of few blocks."""
    quality = (30, 20, 13, 8, 4.5)[severity] / noisy(picture, 1)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=max(1, min(95, math.ceil(quality))))
    return as_floats(Image.open(file))
