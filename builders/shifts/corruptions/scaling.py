"""Lengths and strengths of corruptions, in proportion to the picture's side."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing.pixels import Field

#: The side for which figures are written: that of ImageNet-C. CIFAR-10-C has others for 32 pixels.
SIDE = 224


def length(picture: Image.Image, pixels: float) -> float:
    """So many pixels of 224, in this picture; a length grows a little slower than the side."""
    return float(pixels * (min(picture.size) / SIDE) ** 0.7)


def noisy(picture: Image.Image, spread: float) -> float:
    """A standard deviation of noise in each pixel: less in a small picture, whose pixels show more each."""
    return float(spread * (min(picture.size) / SIDE) ** 0.5)


def sampled(pixels: Field, x: Field, y: Field) -> Field:
    """The pixels at places between pixels, by columns `x` and rows `y`; beyond the edge is the edge."""
    height, width = pixels.shape[:2]
    x, y = x.clip(0, width - 1), y.clip(0, height - 1)
    left, top = np.minimum(x.astype(np.int64), width - 2), np.minimum(y.astype(np.int64), height - 2)
    across, down = (x - left)[..., np.newaxis], (y - top)[..., np.newaxis]
    flat, at = pixels.reshape(-1, 3), top * width + left
    above = flat[at] + across * (flat[at + 1] - flat[at])
    below = flat[at + width] + across * (flat[at + width + 1] - flat[at + width])
    return np.asarray(above + down * (below - above), dtype=np.float32)


def places(picture: Image.Image) -> tuple[Field, Field]:
    """The column and the row of every pixel."""
    rows, columns = np.indices((picture.height, picture.width), dtype=np.float32)
    return columns, rows
