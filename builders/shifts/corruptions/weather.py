"""Snow and fog between the picture and the camera."""

from __future__ import annotations

import numpy as np
from PIL import Image

from builders.shifts.drawing.pixels import Field, as_floats, laid_over, noise, shade
from builders.shifts.weather import render

AIR = shade((226, 229, 233))


def snow(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """Flakes in the air and what lies already: `builders.shifts.weather` at five of its scales."""
    scale = (0.5, 0.9, 1.35, 1.9, 2.5)[severity]
    return as_floats(render("snow", picture, scale, key=(int(draws.integers(2**62)),)))


def fog(picture: Image.Image, severity: int, draws: np.random.Generator) -> Field:
    """White clouds of uneven density, without depth; `builders.shifts.weather` has a fog that knows depth."""
    thick = (0.35, 0.6, 0.95, 1.45, 2.2)[severity]
    cloud = noise(draws, picture.size, 3, octaves=5)
    return laid_over(as_floats(picture), AIR, 1 - np.exp(-thick * (0.3 + 1.4 * cloud)))
