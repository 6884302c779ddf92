"""Pictures as numbers from 0 to 1 and back, and what every family does with them."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.shifts.drawing.noise import cloud
from builders.shifts.drawing.palettes import Colour, picture
from shiftdata.errors import InputError

Field: TypeAlias = NDArray[np.float32]
Key: TypeAlias = tuple[str | int, ...]

SMALLEST = 16


def check_picture(picture: Image.Image) -> None:
    """Refuse what weather and corruptions are not made for."""
    if picture.mode != "RGB":
        raise InputError(f"the picture must be RGB, got {picture.mode}; call picture.convert('RGB') first")
    if min(picture.size) < SMALLEST:
        raise InputError(f"the picture must be at least {SMALLEST} pixels wide and high, got {picture.size}")


def as_floats(picture: Image.Image) -> Field:
    """The pixels from 0 to 1."""
    return np.asarray(picture, dtype=np.float32) / np.float32(255)


def as_doubles(picture: Image.Image) -> NDArray[np.float64]:
    """The red, green and blue of each pixel from 0 to 1, in double precision."""
    return np.asarray(picture.convert("RGB"), dtype=np.float64) / 255


def as_picture(pixels: NDArray[np.floating]) -> Image.Image:
    """A picture of pixels from 0 to 1; what lies beyond is cut off."""
    return picture(pixels.clip(0, 1) * 255)


def shade(colour: Colour) -> Field:
    """A colour as a pixel from 0 to 1."""
    return np.array(colour, dtype=np.float32) / np.float32(255)


def laid_over(pixels: Field, colour: Field, share: Field) -> Field:
    """The pixels, of each the share covered by the colour."""
    return np.asarray(pixels + share[..., np.newaxis] * (colour - pixels))


def noise(
    draws: np.random.Generator, size: tuple[int, int], cells: int, octaves: int = 4, stretch: float = 1
) -> Field:
    """Fractal noise from 0 to 1 with `cells` cells along the longer side, drawn out sideways by `stretch`.

    The same draws give the same shapes at every size.
    """
    width, height = size
    whole = cloud(draws, cells, octaves, max(size)).astype(np.float32)
    part = whole[:height, : math.ceil(width / stretch)]
    if part.shape == (height, width):
        return part
    return np.asarray(Image.fromarray(part).resize(size, Image.Resampling.BICUBIC)).clip(0, 1)
