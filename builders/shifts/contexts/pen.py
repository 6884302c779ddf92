"""A pen whose places and lengths are shares of the picture's side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from PIL import Image, ImageDraw

Box: TypeAlias = tuple[float, float, float, float]
Point: TypeAlias = tuple[float, float]
Ink: TypeAlias = tuple[int, ...]


def around(x: float, y: float, half: float, tall: float | None = None) -> Box:
    """The box round a middle, half as wide and half as tall as given."""
    tall = half if tall is None else tall
    return x - half, y - tall, x + half, y + tall


class Pen:
    """Draws on a picture; boxes are (left, top, right, bottom)."""

    def __init__(self, image: Image.Image) -> None:
        self._side, self._draw = image.width, ImageDraw.Draw(image)

    def box(
        self, box: Box, fill: Ink | int | None, *, rim: Ink | None = None, width: float = 0, corner: float = 0
    ) -> None:
        """A rectangle, its corners round where a radius is given."""
        self._draw.rounded_rectangle(
            self._pixels(box), self._px(corner), fill=fill, outline=rim, width=self._px(width)
        )

    def oval(self, box: Box, fill: Ink | int | None, *, rim: Ink | None = None, width: float = 0) -> None:
        """An ellipse."""
        self._draw.ellipse(self._pixels(box), fill=fill, outline=rim, width=self._px(width))

    def dome(self, box: Box, fill: Ink) -> None:
        """The upper half of an ellipse."""
        self._draw.pieslice(self._pixels(box), 180, 360, fill=fill)

    def arc(self, box: Box, start: float, length: float, ink: Ink, width: float) -> None:
        """A part of an ellipse's line, in degrees."""
        self._draw.arc(self._pixels(box), start, start + length, fill=ink, width=self._px(width))

    def shape(self, corners: Iterable[Point], fill: Ink | int) -> None:
        """A polygon."""
        self._draw.polygon([(x * self._side, y * self._side) for x, y in corners], fill=fill)

    def line(self, points: Sequence[Point], ink: Ink, width: float) -> None:
        """A line through some points."""
        scaled = [(x * self._side, y * self._side) for x, y in points]
        self._draw.line(scaled, fill=ink, width=max(1, self._px(width)), joint="curve")

    def _px(self, share: float) -> int:
        return round(share * self._side)

    def _pixels(self, box: Box) -> list[int]:
        """The box in whole pixels, at least one in each direction."""
        left, top, right, bottom = (self._px(part) for part in box)
        return [left, top, max(left, right), max(top, bottom)]
