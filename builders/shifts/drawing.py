"""Drawing helpers of styles, weather, corruptions and contexts: noise, cells, palettes, pixels as numbers."""

from __future__ import annotations

import colorsys
import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Draw: TypeAlias = Callable[[np.random.Generator], Image.Image]


def drawn_in(*modules: ModuleType) -> dict[str, Draw]:
    """The public functions that some modules define, by name."""
    functions = (draw for module in modules for draw in vars(module).values() if inspect.isfunction(draw))
    own = {module.__name__ for module in modules}
    mine = {draw.__name__: draw for draw in functions if draw.__module__ in own}
    return {name: mine[name] for name in sorted(mine) if not name.startswith("_")}


Doubles: TypeAlias = NDArray[np.float64]

SIDE = 256  # of a finished style picture
FINE = 512  # drawn at twice the size, then halved: edges come out smooth


def grid(angle: float = 0.0, side: int = FINE) -> tuple[Doubles, Doubles]:
    """Coordinates (x, y) of every pixel in about [-0.5, 0.5], turned by an angle in radians."""
    axis = (np.arange(side) + 0.5) / side - 0.5
    x, y = np.meshgrid(axis, axis)
    return x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)


def smooth_noise(rng: np.random.Generator, cells: int, side: int = FINE) -> Doubles:
    """Random heights in [0, 1] on a lattice of cells x cells, joined smoothly."""
    lattice = rng.random((cells + 1, cells + 1))
    at = np.linspace(0, cells, side, endpoint=False)
    low = at.astype(np.int64)
    part = at - low
    part = part * part * (3 - 2 * part)
    rows = lattice[low] * (1 - part)[:, np.newaxis] + lattice[low + 1] * part[:, np.newaxis]
    return np.asarray(rows[:, low] * (1 - part) + rows[:, low + 1] * part, dtype=np.float64)


def cloud(rng: np.random.Generator, cells: int, octaves: int = 4, side: int = FINE) -> Doubles:
    """Fractal noise stretched to [0, 1]: each octave twice as fine and half as high."""
    total = np.zeros((side, side))
    for octave in range(octaves):
        total += smooth_noise(rng, cells << octave, side) / (1 << octave)
    return stretched(total)


def stretched(values: Doubles) -> Doubles:
    """The same field with its lowest value at 0 and its highest at 1."""
    low, high = values.min(), values.max()
    return np.asarray((values - low) / max(high - low, 1e-9), dtype=np.float64)


def warp(rng: np.random.Generator, cells: int, amount: float) -> tuple[Doubles, Doubles]:
    """Two smooth displacements within [-amount, amount], for bending coordinates."""
    return (smooth_noise(rng, cells) * 2 - 1) * amount, (smooth_noise(rng, cells) * 2 - 1) * amount


class Cells(NamedTuple):
    """For every pixel: the nearest point's number, the way from it, its distance; the second's distance."""

    number: NDArray[np.int64]
    dx: Doubles
    dy: Doubles
    first: Doubles
    second: Doubles


def cells(rng: np.random.Generator, columns: int, x: Doubles, y: Doubles, looseness: float = 0.9) -> Cells:
    """Voronoi cells of columns x columns points, each near its place in a lattice, repeated over the plane.

    Only the nine lattice places round a pixel are looked at; with a looseness of at most 1 that is exact but
    for rare far corners, and the cost does not grow with the number of points.
    """
    shift = rng.uniform(-0.5, 0.5, (2, columns, columns)) * looseness
    column, row = np.floor(x * columns).astype(np.int64), np.floor(y * columns).astype(np.int64)
    zero, far = np.zeros_like(x), np.full_like(x, np.inf)
    best = Cells(np.zeros_like(column), zero, zero, far, far)
    for down, across in np.ndindex(3, 3):
        i, j = column + across - 1, row + down - 1
        at = (j % columns, i % columns)
        dx, dy = x - (i + 0.5 + shift[0][at]) / columns, y - (j + 0.5 + shift[1][at]) / columns
        away = np.hypot(dx, dy)
        closer = away < best.first
        best = Cells(
            np.where(closer, at[0] * columns + at[1], best.number),
            np.where(closer, dx, best.dx),
            np.where(closer, dy, best.dy),
            np.where(closer, away, best.first),
            np.where(closer, best.first, np.minimum(best.second, away)),
        )
    return best


def finished(image: Image.Image) -> Image.Image:
    """The picture at its final size."""
    return image.resize((SIDE, SIDE), Image.Resampling.BOX)


Colour: TypeAlias = tuple[int, int, int]


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


def flat(index: NDArray[np.int64], colours: list[Colour]) -> Doubles:
    """Doubles from a map of whole numbers: number i gets colour i, counted round."""
    return np.asarray(np.array(colours, dtype=np.float64)[index % len(colours)])


def ramp(values: Doubles, colours: list[Colour]) -> Doubles:
    """Doubles from a map of numbers in [0, 1], running evenly through the colours."""
    table = np.asarray(colours, dtype=np.float64)
    at = values.clip(0, 1) * (len(table) - 1)
    low = np.minimum(at.astype(np.int64), len(table) - 2)
    part = (at - low)[..., np.newaxis]
    return np.asarray(table[low] * (1 - part) + table[low + 1] * part)


def where(mask: NDArray[np.bool_], colour: Any, pixels: Any) -> Doubles:
    """The pixels, or a colour (or other pixels) where the mask says so."""
    return np.where(mask[..., np.newaxis], np.asarray(colour, dtype=np.float64), pixels)


def picture(pixels: NDArray[np.floating]) -> Image.Image:
    """A picture from pixels in [0, 255]."""
    return Image.fromarray(np.rint(pixels.clip(0, 255)).astype(np.uint8))


Field: TypeAlias = NDArray[np.float32]
Key: TypeAlias = tuple[str | int, ...]

SMALLEST = 16


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
