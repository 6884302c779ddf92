"""Noise of the sensor and of the transmission; one field of draws grows along the severities."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.corruptions.scaling import noisy
from builders.shifts.drawing.pixels import Field, as_floats


def gaussian_noise(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Noise of a dark sensor: as strong in the light as in the dark."""
    spread = noisy(picture, (0.08, 0.12, 0.18, 0.26, 0.38)[severity])
    return as_floats(picture) + np.float32(spread) * _normal(picture, draws)


def shot_noise(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Too few photons: each pixel counts them, on average so many where it is white.

    By the inverse of Anscombe's transform, which makes Poisson counts of normal draws.
    """
    photons = (60, 25, 12, 6, 3)[severity] / noisy(picture, 1) ** 2
    mean = np.sqrt(as_floats(picture) * np.float32(photons) + np.float32(0.375))
    counts = np.maximum(mean + 0.5 * _normal(picture, draws), 0) ** 2 - np.float32(0.375)
    return np.asarray(np.rint(counts).clip(0) / np.float32(photons), dtype=np.float32)


def impulse_noise(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Salt and pepper in each colour: values that were lost, at none or at full."""
    share = (0.03, 0.06, 0.1, 0.17, 0.27)[severity] * noisy(picture, 1) ** 2
    lost, full = draws.random((2, picture.height, picture.width, 3), dtype=np.float32)
    return np.asarray(np.where(lost < share, full > 0.5, as_floats(picture)), dtype=np.float32)


def speckle_noise(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Noise that goes with the light: none in black."""
    spread = noisy(picture, (0.15, 0.22, 0.32, 0.45, 0.6)[severity])
    return as_floats(picture) * (1 + np.float32(spread) * _normal(picture, draws))


def _normal(picture: Image.Image, draws: np.random.Generator) -> Field:
    return draws.standard_normal((picture.height, picture.width, 3), dtype=np.float32)
