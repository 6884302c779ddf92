"""Blur of the lens, of the glass before it, and of movement."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageFilter

from builders.shifts.corruptions.scaling import length, places, sampled
from builders.shifts.drawing.noise import Field as Doubles
from builders.shifts.drawing.pixels import Field, as_floats, as_picture


def gaussian_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Every point spread to a soft spot."""
    return _soft(picture, length(picture, (1.5, 2.2, 3.1, 4.4, 6.2)[severity]))


def defocus_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The lens out of focus: every point spread to a disc with a sharp edge, as wide as the aperture."""
    radius = length(picture, (2.6, 3.8, 5.5, 7.8, 11)[severity])
    reach = math.ceil(radius)
    # The share of each pixel that lies within the disc, of 8 x 8 places in it.
    fine = (np.arange(8 * (2 * reach + 1)) + 0.5) / 8 - reach - 0.5
    inside = np.hypot(fine, fine[:, np.newaxis]) < radius
    return _spread(picture, inside.reshape(2 * reach + 1, 8, 2 * reach + 1, 8).mean((1, 3)))


def glass_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Seen through frosted glass: every point is thrown to a place nearby."""
    far = length(picture, (1.6, 2.6, 4, 6, 8.5)[severity])
    columns, rows = places(picture)
    # The sum of two even draws: mostly near, seldom far.
    thrown = draws.random((2, 2, *columns.shape), dtype=np.float32).sum(axis=0) - 1
    x, y = np.float32(far) * thrown
    return _soft(as_picture(sampled(_soft(picture, 0.25 * far), columns + x, rows + y)), 0.2 * far)


def motion_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The camera moves along a straight line while the shutter is open."""
    half = length(picture, (6, 10, 16, 24, 34)[severity]) / 2
    angle = draws.uniform(0, math.pi)
    reach = math.ceil(half) + 1
    way = np.linspace(-half, half, 8 * reach + 1)
    x, y = reach + way * math.cos(angle), reach + way * math.sin(angle)
    kernel = np.zeros((2 * reach + 1, 2 * reach + 1))
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    for right, down in np.ndindex(2, 2):  # each place on the way is shared by the four pixels round it
        share = np.abs(1 - right - (x - left)) * np.abs(1 - down - (y - top))
        np.add.at(kernel, (top + down, left + right), share)
    return _spread(picture, kernel)


def zoom_blur(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """The lens zooms in while the shutter is open."""
    most = (0.06, 0.1, 0.15, 0.22, 0.32)[severity]
    width, height = picture.size
    steps = 2 + min(14, math.ceil(most * max(width, height) / 2))
    total = np.zeros((height, width, 3), dtype=np.float32)
    for zoom in np.linspace(1, 1 + most, steps).tolist():
        x, y = 0.5 * width * (1 - 1 / zoom), 0.5 * height * (1 - 1 / zoom)
        box = (x, y, width - x, height - y)
        total += np.asarray(picture.resize(picture.size, Image.Resampling.BILINEAR, box=box))
    return total / np.float32(255 * steps)


def _soft(picture: Image.Image, radius: float) -> Field:
    return as_floats(picture.filter(ImageFilter.GaussianBlur(radius)))


def _spread(picture: Image.Image, kernel: Doubles) -> Field:
    """The picture with every point spread to the kernel; beyond its edge it goes on as in a mirror."""
    reach = len(kernel) // 2
    sides = (reach, reach)
    padded = np.pad(np.asarray(picture, dtype=np.float64) / 255, (sides, sides, (0, 0)), mode="symmetric")
    size = padded.shape[:2]
    filtered = np.fft.rfft2(padded, axes=(0, 1)) * np.fft.rfft2(kernel / kernel.sum(), size)[..., np.newaxis]
    whole = np.fft.irfft2(filtered, size, axes=(0, 1))
    return np.asarray(whole[2 * reach :, 2 * reach :], dtype=np.float32)
