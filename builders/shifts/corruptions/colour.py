"""Light and colour: brightness, contrast, saturate."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing.pixels import Field, as_floats


def brightness(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Too much light: every colour is raised, and what would be brighter than full goes white."""
    pixels = as_floats(picture)
    value = pixels.max(axis=-1, keepdims=True)
    raised = value + (0.1, 0.2, 0.3, 0.41, 0.53)[severity]
    # Hue and saturation are kept, but not in the dark, where they are mostly noise.
    lit = pixels + (np.minimum(raised, 1) - value) * (pixels + 0.1) / (value + 0.1)
    return np.asarray(lit + (1 - lit) * np.maximum(raised - 1, 0))


def contrast(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Every colour nearer to the picture's mean colour."""
    kept = (0.7, 0.5, 0.33, 0.19, 0.07)[severity]
    pixels = as_floats(picture)
    mean = pixels.mean(axis=(0, 1), dtype=np.float64)
    return np.asarray(mean + kept * (pixels - mean))


def saturate(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Colours too strong or too weak, whichever is drawn; hue and value are kept, and grey stays grey."""
    amount = (0.25, 0.45, 0.65, 0.82, 1.0)[severity]
    pixels = as_floats(picture)
    value = pixels.max(axis=-1, keepdims=True)
    if draws.random() < 0.5:
        return np.asarray(value - (value - pixels) * np.float32(1 - amount))
    saturation = (value - pixels.min(axis=-1, keepdims=True)) / np.maximum(value, 1e-6)
    # Where there is next to no colour little is added, so as not to make a hue of noise.
    factor = 1 + amount * (1 - saturation) / (saturation + 0.05)
    return np.asarray(value - (value - pixels) * factor)
