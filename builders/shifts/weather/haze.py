"""What hangs in the air: light is lost on its way to the eye, and the medium's own light takes its place.

After Koschmieder: of a pixel's light the share `exp(-extinction * depth)` arrives, and the rest is airlight.
The airlight does not depend on the scale, so the medium moves every pixel towards it and never back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import ImageFilter

from builders.shifts.drawing.palettes import Colour
from builders.shifts.drawing.pixels import Field, as_floats, as_picture, laid_over, noise, shade

FAR, NEAR = 1.6, 0.7


@dataclass(frozen=True)
class Medium:
    """Droplets or dust in the air; figures are for a scale of 1 and a depth of 1.

    air: the airlight.
    extinction: the optical depth for red, green and blue: dust takes blue first, droplets take all alike.
    cells, stretch, patchy: the size, sideways length and contrast of denser and thinner patches.
    settled: how much denser it is at the bottom of the picture than in its middle.
    scatter, spread: how much of the light arrives from near its place only, which blurs, and from how near.
    grain: how speckled the airlight is.
    """

    air: Colour
    extinction: tuple[float, float, float]
    cells: int = 3
    stretch: float = 1
    patchy: float = 0
    settled: float = 0
    scatter: float = 0
    spread: float = 0.02
    grain: float = 0

    def arriving(self, thickness: Field | float) -> Field:
        """The share of red, green and blue light that arrives through so much of the medium."""
        amount = np.asarray(thickness, dtype=np.float32)[..., np.newaxis]
        return np.asarray(np.exp(-amount * np.array(self.extinction, dtype=np.float32)))


def ground_plane(size: tuple[int, int]) -> Field:
    """The depth of a plane seen from above: its inverse grows evenly from the top row to the bottom row."""
    column = 1 / np.linspace(1 / FAR, 1 / NEAR, size[1], dtype=np.float32)
    return np.repeat(column[:, np.newaxis], size[0], axis=1)


def veil(medium: Medium, pixels: Field, scale: float, depth: Field, draws: np.random.Generator) -> Field:
    """The pixels behind the medium."""
    height, width = depth.shape
    patches = noise(draws, (width, height), medium.cells, stretch=medium.stretch)
    density = 1 + medium.patchy * (2 * patches - 1)
    density *= 1 + medium.settled * np.linspace(-1, 1, height, dtype=np.float32)[:, np.newaxis]
    thickness = scale * depth * density
    if medium.scatter:
        radius = medium.spread * min(width, height)
        soft = as_floats(as_picture(pixels).filter(ImageFilter.GaussianBlur(radius)))
        pixels = laid_over(pixels, soft, 1 - np.exp(-medium.scatter * thickness))
    air = shade(medium.air)
    if medium.grain:
        speckle = noise(draws, (width, height), 100, octaves=2, stretch=medium.stretch)
        air = air * (1 + medium.grain * (2 * speckle - 1))[..., np.newaxis]
    return np.asarray(air + (pixels - air) * medium.arriving(thickness))
