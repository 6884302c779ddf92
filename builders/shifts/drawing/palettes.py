"""Colours: families of a few base colours and their jittered members, and pixels coloured by them."""

from __future__ import annotations

import colorsys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Colour: TypeAlias = tuple[int, int, int]
Pixels: TypeAlias = NDArray[np.float64]


def palette(rng: np.random.Generator, family: str, turn: float = 0.025) -> list[Colour]:
    """One member of a colour family, given as hexadecimal colours between spaces, in the same order.

    All hues turn together by up to `turn` of the circle, so the colours still go with each other; saturation
    and value move a little for each colour on its own.
    """
    shared = rng.uniform(-turn, turn)
    colours: list[Colour] = []
    for base in family.split():
        hue, saturation, value = colorsys.rgb_to_hsv(*(part / 255 for part in bytes.fromhex(base)))
        hue = (hue + shared + rng.uniform(-0.01, 0.01)) % 1
        saturation = min(1.0, saturation * rng.uniform(0.85, 1.15))
        value = min(1.0, value * rng.uniform(0.88, 1.12))
        red, green, blue = colorsys.hsv_to_rgb(hue, saturation, value)
        colours.append((round(red * 255), round(green * 255), round(blue * 255)))
    return colours


def pick(rng: np.random.Generator, colours: list[Colour]) -> Colour:
    """One of the colours, each as likely."""
    return colours[int(rng.integers(len(colours)))]


def flat(index: NDArray[np.int64], colours: list[Colour]) -> Pixels:
    """Pixels from a map of whole numbers: number i gets colour i, counted round."""
    return np.asarray(np.array(colours, dtype=np.float64)[index % len(colours)])


def ramp(values: Pixels, colours: list[Colour]) -> Pixels:
    """Pixels from a map of numbers in [0, 1], running evenly through the colours."""
    table = np.asarray(colours, dtype=np.float64)
    at = values.clip(0, 1) * (len(table) - 1)
    low = np.minimum(at.astype(np.int64), len(table) - 2)
    part = (at - low)[..., np.newaxis]
    return np.asarray(table[low] * (1 - part) + table[low + 1] * part)


def where(mask: NDArray[np.bool_], colour: Any, pixels: Any) -> Pixels:
    """The pixels, or a colour (or other pixels) where the mask says so."""
    return np.where(mask[..., np.newaxis], np.asarray(colour, dtype=np.float64), pixels)


def picture(pixels: NDArray[np.floating]) -> Image.Image:
    """A picture from pixels in [0, 255]."""
    return Image.fromarray(np.rint(pixels.clip(0, 255)).astype(np.uint8))
