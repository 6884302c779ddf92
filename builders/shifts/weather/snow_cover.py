"""Snow that stays: caps on what faces up, and a drift along the ground."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageFilter

from builders.shifts.drawing.pixels import Field, as_floats, noise

SNOW = (238, 243, 250)
CAP = 0.022  # thickness at a scale of 1, a share of the shorter side
DRIFT = 0.05  # height at a scale of 1, a share of the height
SHELTER = 0.7  # how much an edge keeps snow from what lies below it


def settled(picture: Image.Image, scale: float, depth: Field, draws: np.random.Generator) -> Field:
    """How much of each pixel snow covers, 0 to 1: what a flake from above meets first, and the ground."""
    width, height = picture.size
    landing = _landing(picture, depth)
    thickness = CAP * min(width, height) * scale * (0.3 + 1.4 * noise(draws, picture.size, 10, octaves=3))
    share = np.zeros_like(landing)
    for down in range(-int(thickness.max() / 2) - 1, int(thickness.max()) + 1):
        reach = thickness - (down if down > 0 else -2 * down)
        share = np.maximum(share, np.minimum(_moved(landing, down), reach.clip(0, 1)))
    crest = 1 - DRIFT * scale * (0.2 + 1.6 * noise(draws, (width, 1), 4, octaves=2))
    rows = (np.arange(height, dtype=np.float32)[:, np.newaxis] + 0.5) / height
    return np.asarray(np.maximum(share, ((rows - crest) * 60).clip(0, 1)), dtype=np.float32)


def _landing(picture: Image.Image, depth: Field) -> Field:
    """Where snow lands, 0 to 1: on edges of colour, or of depth, that no other edge above shelters."""
    short = min(picture.size)
    step = max(1, round(0.012 * short))
    soft = as_floats(picture.filter(ImageFilter.GaussianBlur(0.008 * short)))
    change = np.abs(_moved(soft, step) - _moved(soft, -step)).max(axis=-1)
    nearer = _moved(depth, step) - _moved(depth, -step)
    edge = np.maximum(change / 0.25 - 0.3, nearer / 0.3 - 0.5).clip(0, 1)
    above = np.cumsum(_moved(edge, 3 * step), axis=0) / step
    return np.asarray(edge * np.exp(-SHELTER * above), dtype=np.float32)


def _moved(values: Field, down: int) -> Field:
    """The field some rows lower; its first or last row fills what comes free."""
    rows = (np.arange(len(values)) - down).clip(0, len(values) - 1)
    return np.asarray(values[rows])
