"""The elements of a scene: the stage it is drawn on, the pen, and the scene itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from PIL import Image, ImageDraw

from builders.shifts.drawing.palettes import Colour, palette

T = TypeVar("T")
Edit: TypeAlias = Callable[[Image.Image], Image.Image]
Box: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom
Point: TypeAlias = tuple[float, float]
Ink: TypeAlias = tuple[int, ...]

SCALE = 2  # scenes are drawn at twice the size and halved: edges come out smooth


@dataclass(frozen=True)
class Stage:
    """The stage of a scene: its size, its random generator, and the strength of its effects."""

    size: int
    rng: np.random.Generator
    strength: float = 1.0

    @property
    def side(self) -> int:
        return SCALE * self.size

    def px(self, share: float) -> int:
        """Pixels of the drawing from a share of its side."""
        return round(share * self.side)

    def some(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def any(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def colours(self, family: str) -> list[Colour]:
        return palette(self.rng, family)

    def colour(self, family: str) -> Colour:
        return self.any(self.colours(family))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The surroundings of a cut-out; places are shares of the side, from the left and from the top.

    `ground` is where the object's foot stands, `share` the part of the side that its longer edge takes,
    `sunk` the part of its height below the ground's line. `front` lies on the object and can hide its foot;
    `light` darkens the whole, `tint` colours the object alone. `pose` changes the cut-out before it is set
    into the scene, `lens` the finished picture. What is `still` stands on the ground's line and never behind
    it, as on a shelf or in a hand.
    """

    back: Pen
    ground: float = 0.85
    share: tuple[float, float] = (0.5, 0.64)
    across: tuple[float, float] = (0.2, 0.8)
    sunk: float = 0.0
    shadow: float = 0.5
    front: Pen | None = None
    light: Image.Image | None = None
    tint: Colour = (255, 255, 255)
    pose: Edit | None = None
    lens: Edit | None = None
    still: bool = False


Make: TypeAlias = Callable[[Stage], Scene]


def around(x: float, y: float, half: float, tall: float | None = None) -> Box:
    """The box round a middle, half as wide and half as tall as given."""
    tall = half if tall is None else tall
    return x - half, y - tall, x + half, y + tall


def turned(cut: Image.Image, degrees: float) -> Image.Image:
    """A cut-out turned against the clock, without an empty margin."""
    made = cut.convert("RGBa").rotate(degrees, Image.Resampling.BICUBIC, expand=True).convert("RGBA")
    return made.crop(made.getbbox()) if degrees else cut


class Pen:
    """Draws on a picture; places and lengths are shares of its side."""

    def __init__(self, image: Image.Image) -> None:
        self.image, self._side, self._draw = image, image.width, ImageDraw.Draw(image)

    def box(
        self, box: Box, fill: Ink | int | None, *, rim: Ink | None = None, width: float = 0, corner: float = 0
    ) -> None:
        radius, line = self._px(corner), self._px(width)
        self._draw.rounded_rectangle(self._pixels(box), radius, fill=fill, outline=rim, width=line)

    def oval(self, box: Box, fill: Ink | int | None, *, rim: Ink | None = None, width: float = 0) -> None:
        self._draw.ellipse(self._pixels(box), fill=fill, outline=rim, width=self._px(width))

    def dome(self, box: Box, fill: Ink) -> None:
        self._draw.pieslice(self._pixels(box), 180, 360, fill=fill)

    def arc(self, box: Box, start: float, length: float, ink: Ink, width: float) -> None:
        self._draw.arc(self._pixels(box), start, start + length, fill=ink, width=self._px(width))

    def shape(self, corners: Iterable[Point], fill: Ink | int) -> None:
        self._draw.polygon([(x * self._side, y * self._side) for x, y in corners], fill=fill)

    def line(self, points: Sequence[Point], ink: Ink, width: float) -> None:
        scaled = [(x * self._side, y * self._side) for x, y in points]
        self._draw.line(scaled, fill=ink, width=max(1, self._px(width)), joint="curve")

    def _px(self, share: float) -> int:
        return round(share * self._side)

    def _pixels(self, box: Box) -> list[int]:
        left, top, right, bottom = (self._px(part) for part in box)
        return [left, top, max(left, right), max(top, bottom)]
