"""What several style pictures are drawn with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from builders.shifts.drawing import FINE, Colour
from builders.shifts.drawing import Doubles as Field


def canvas(colour: tuple[int, int, int]) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """A picture of one colour at the fine size, and a pen for it."""
    image = Image.new("RGB", (FINE, FINE), colour)
    return image, ImageDraw.Draw(image)


def hexagons(x: Field, y: Field) -> tuple[NDArray[np.int64], Field, Field]:
    """Unit hexagons: a number for each and every pixel's way (dx, dy) from the hexagon's centre."""
    row = np.sqrt(3)
    even = np.round(x), np.round(y / row)
    odd = np.floor(x) + 0.5, np.floor(y / row) + 0.5
    nearer = np.hypot(x - even[0], y - even[1] * row) < np.hypot(x - odd[0], y - odd[1] * row)
    across, down = np.where(nearer, even[0], odd[0]), np.where(nearer, even[1], odd[1])
    number = (2 * across + 62 * down).astype(np.int64)
    return number, x - across, y - down * row


def shaded(colour: Colour, factor: float) -> Colour:
    """A colour with its brightness times a factor."""
    red, green, blue = (min(255, round(part * factor)) for part in colour)
    return red, green, blue
