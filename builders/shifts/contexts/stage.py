"""A stage to draw a scene on, and the scene that a cut-out is set into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from PIL import Image

from builders.shifts.drawing.palettes import Colour, palette

T = TypeVar("T")
Edit: TypeAlias = Callable[[Image.Image], Image.Image]

SCALE = 2  # scenes are drawn at twice the size and halved: edges come out smooth


@dataclass(frozen=True)
class Stage:
    """Where a scene is drawn: its size, its random generator, and how strong its effects shall be."""

    size: int
    rng: np.random.Generator
    strength: float = 1.0

    @property
    def side(self) -> int:
        """The side of the drawing in pixels."""
        return SCALE * self.size

    def px(self, share: float) -> int:
        """Pixels of the drawing from a share of its side."""
        return round(share * self.side)

    def some(self, low: float, high: float) -> float:
        """Any number between two."""
        return float(self.rng.uniform(low, high))

    def any(self, choices: Sequence[T]) -> T:
        """Any of some things."""
        return choices[int(self.rng.integers(len(choices)))]

    def colours(self, family: str) -> list[Colour]:
        """Colours near those of a family, given as hexadecimal numbers between spaces."""
        return palette(self.rng, family)

    def colour(self, family: str) -> Colour:
        """One colour near one of a family."""
        return self.any(self.colours(family))

    def layer(self, colour: Colour) -> Image.Image:
        """A transparent drawing; its colour is that of what will be drawn, so that edges keep it."""
        return Image.new("RGBA", (self.side, self.side), (*colour, 0))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What surrounds a cut-out; places are shares of the side, from the left and from the top.

    `ground` is where the object's foot stands, `share` the part of the side that its longer edge takes,
    `sunk` the part of its height below the ground's line. `front` lies on the object and can hide its foot;
    `light` darkens the whole, `tint` colours the object alone. `pose` changes the cut-out before it is set
    into the scene, `lens` the finished picture.
    """

    back: Image.Image
    ground: float = 0.85
    share: tuple[float, float] = (0.5, 0.64)
    across: tuple[float, float] = (0.38, 0.62)
    sunk: float = 0.0
    shadow: float = 0.5
    front: Image.Image | None = None
    light: Image.Image | None = None
    tint: Colour = (255, 255, 255)
    pose: Edit | None = None
    lens: Edit | None = None


Make: TypeAlias = Callable[[Stage], Scene]
