"""Parts that scenes are drawn with: skies, planes in perspective, ridges, trees, blades, specks, lights."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Self

import numpy as np
from PIL import Image, ImageFilter, ImageOps

from builders.shifts.contexts import materials, patterns
from builders.shifts.contexts.materials import TILE
from builders.shifts.contexts.scene import Pen, Point, Stage, around
from builders.shifts.drawing import Colour, drawn_in
from shiftdata.stable import rng

WHITE = (255, 255, 255)
VARIANTS = 4  # tiles a material
MATERIALS, PATTERNS = drawn_in(materials), drawn_in(patterns)
Heights = tuple[float, float]  # from and to, shares of the side from the top


def tile(stage: Stage, material: str) -> Image.Image:
    """One of the tiles of a material, mirrored to twice its side so that it can be laid without a seam."""
    return _laid(material, int(stage.rng.integers(VARIANTS)))


@lru_cache(maxsize=512)
def _laid(material: str, variant: int) -> Image.Image:
    if material in MATERIALS:
        drawn = MATERIALS[material](rng("contexts", "material", material, variant))
    else:
        drawn = PATTERNS[material](rng("style-bank", material, variant))
    laid = Image.new("RGB", (2 * TILE, 2 * TILE))
    for turned, x in ((drawn, 0), (ImageOps.mirror(drawn), TILE)):
        laid.paste(turned, (x, 0))
        laid.paste(ImageOps.flip(turned), (x, TILE))
    return laid


class Canvas(Pen):
    """A picture of a scene: every method but the pen's own draws a part of it and gives it back."""

    def __init__(self, stage: Stage, image: Image.Image | None = None) -> None:
        super().__init__(image or Image.new("RGB", (stage.side, stage.side)))
        self.stage = stage

    def faded(self, colour: Colour, share: float) -> Canvas:
        """A picture nearer to a colour: less contrast, so that patterns do not drown the object."""
        return Canvas(self.stage, Image.blend(self.image, Image.new("RGB", self.image.size, colour), share))

    def wall(self, material: str, heights: Heights, zoom: float = 1) -> Self:
        stage = self.stage
        top, bottom = (stage.px(part) for part in heights)
        width, height = round(TILE * zoom), max(1, round(TILE * zoom * (bottom - top) / stage.side))
        # Within one half of the tile where it fits: its mirrored seam would show.
        x, y = (round(stage.some(0, (1 if part <= TILE else 2) * TILE - part)) for part in (width, height))
        size, part = (stage.side, bottom - top), (x, y, x + width, y + height)
        self.image.paste(tile(stage, material).resize(size, Image.Resampling.BILINEAR, part), (0, top))
        return self

    def panel(self, material: str, box: tuple[float, float, float, float]) -> Self:
        left, top, right, bottom = (self.stage.px(part) for part in box)
        most = (0, 0, 0.8 * TILE, 0.8 * TILE)
        piece = tile(self.stage, material).resize((right - left, bottom - top), box=most)
        self.image.paste(piece, (left, top))
        return self

    def floor(self, material: str, horizon: float, *, zoom: float = 0.7, depth: float = 0.35) -> Self:
        """Cover everything below the horizon with a material that lies on the ground, seen in perspective.

        `zoom` is the part of a tile that the lower edge shows; the smaller `depth`, the steeper the flight.
        """
        stage, top, side = self.stage, self.stage.px(horizon), self.stage.side
        high = side - top
        away = max(1.0, depth * high)  # from the vanishing line to the plane's upper edge
        far = min(1.9 * TILE, zoom * TILE * (high + away) / away)  # what the upper edge shows of the tile
        bend, middle = 1 / away, TILE + stage.some(-1, 1) * (TILE - far / 2)
        start = stage.some(0, TILE * 0.6)
        run = min(1.3, 1.6 * zoom) * TILE * (bend * high + 1) / high
        plane = (far / side, middle * bend, middle - far / 2, 0.0, run + start * bend, start, 0.0, bend)
        laid = tile(stage, material)
        piece = laid.transform((side, high), Image.Transform.PERSPECTIVE, plane, Image.Resampling.BILINEAR)
        self.image.paste(piece, (0, top))
        return self

    def ridge(self, height: float, colour: Colour, *, swing: float = 0.05, peaks: int = 3) -> Self:
        stage = self.stage
        x = np.linspace(0, 1, 49)
        y = np.full_like(x, height)
        for wave in range(1, peaks + 1):
            y += swing / wave * np.sin(2 * np.pi * (wave * x * stage.some(0.7, 1.1) + stage.some(0, 1)))
        line: list[Point] = list(zip(x.tolist(), y.tolist(), strict=True))
        self.shape([*line, (1, 1), (0, 1)], colour)
        return self

    def crags(self, height: float, family: str) -> Self:
        stage, (lit, shaded) = self.stage, self.stage.colours(family)
        for number in range(4):
            x, half, top = (number + stage.some(0.1, 0.9)) / 4, stage.some(0.2, 0.35), stage.some(0.12, 0.3)
            peak, cleft = (x, height - top), (x + stage.some(-0.08, 0.04), height)
            self.shape([peak, (x - half, height), cleft], lit)
            self.shape([peak, cleft, (x + half, height)], shaded)
        return self

    def trees(self, height: float, family: str, count: int) -> Self:
        for place in self.stage.rng.permutation(count).tolist():
            x = (place + self.stage.some(0.1, 0.9)) / count
            self.tree((x, height), self.stage.some(0.16, 0.24), family)
        return self

    def tree(self, foot: Point, tall: float, family: str) -> Self:
        stage, crowns, (x, y) = self.stage, self.stage.colours(family), foot
        self.box(around(x, y - tall / 2, 0.05 * tall, tall / 2), (74, 50, 38))
        for _ in range(8):
            dx, dy, part = stage.some(-0.3, 0.3), stage.some(-0.4, 0.25), stage.some(0.18, 0.34)
            self.oval(around(x + dx * tall, y + (dy - 1) * tall, part * tall), stage.any(crowns))
        return self

    def conifers(self, height: float, family: str, count: int) -> Self:
        stage, needles, snow = self.stage, self.stage.colour(family), (240, 246, 252)
        for place in stage.rng.permutation(count).tolist():
            x, tall = (place + stage.some(0, 1)) / count, stage.some(0.2, 0.38)
            for step in range(3):
                top, wide = height - tall * (1 - 0.24 * step), tall * (0.16 + 0.08 * step)
                self.shape([(x, top), (x - wide, top + tall / 2), (x + wide, top + tall / 2)], needles)
                self.shape([(x, top), (x - wide / 2, top + tall / 4), (x + wide / 3, top + tall / 5)], snow)
        return self

    def blades(self, foot: float, tall: float, family: str, count: int) -> Self:
        stage, colours = self.stage, self.stage.colours(family)
        for y in sorted(stage.rng.uniform(foot, 1.06, count).tolist()):
            x, high, wide = stage.some(-0.02, 1.02), tall * stage.some(0.5, 1.1), stage.some(0.005, 0.011)
            tip = (x + stage.some(-0.05, 0.05), y - high)
            self.shape([(x - wide, y), tip, (x + wide, y)], stage.any(colours))
        return self

    def specks(self, family: str, count: int, heights: Heights, size: float) -> Self:
        stage, colours = self.stage, self.stage.colours(family)
        for x, y in stage.rng.uniform((0, heights[0]), (1, heights[1]), (count, 2)).tolist():
            self.oval(around(x, y, size * stage.some(0.5, 1.3)), stage.any(colours))
        return self

    def stones(self, family: str, count: int, heights: Heights, size: float) -> Self:
        stage, colours = self.stage, self.stage.colours(family)
        for y in sorted(stage.rng.uniform(*heights, count).tolist()):
            x, reach, body = stage.some(-0.02, 1.02), size * stage.some(0.6, 1.3), stage.any(colours)
            turns = np.sort(stage.rng.uniform(0, 2 * math.pi, 7)).tolist()
            edge = [(x + reach * math.cos(turn), y + 0.62 * reach * math.sin(turn)) for turn in turns]
            self.shape(edge, tuple(part * 5 // 9 for part in body))
            self.shape([(a - 0.12 * reach, b - 0.14 * reach) for a, b in edge], body)
        return self

    def leaves(self, family: str, count: int, heights: Heights, size: float) -> Self:
        stage, colours = self.stage, self.stage.colours(family)
        for x, y in stage.rng.uniform((-0.02, heights[0]), (1.02, heights[1]), (count, 2)).tolist():
            turn, long, wide = stage.some(0, 2 * math.pi), size * stage.some(0.7, 1.3), stage.some(0.3, 0.45)
            dx, dy = math.cos(turn) * long, math.sin(turn) * long
            sides = (x - dy * wide, y + dx * wide), (x + dy * wide, y - dx * wide)
            self.shape([(x - dx, y - dy), sides[0], (x + dx, y + dy), sides[1]], stage.any(colours))
        return self


def gradient(stage: Stage, family: str) -> Canvas:
    colours = stage.colours(family)
    line = Image.new("RGB", (1, len(colours)))
    line.putdata(colours)
    return Canvas(stage, line.resize((stage.side, stage.side), Image.Resampling.BICUBIC))


def sky(stage: Stage, family: str, *, clouds: int = 0, cloud: Colour = WHITE) -> Canvas:
    canvas = gradient(stage, family)
    mask = Image.new("L", (64, 64))
    pen = Pen(mask)
    for _ in range(clouds):
        x, y, reach = stage.some(0, 1), stage.some(0.03, 0.44), stage.some(0.08, 0.17)
        for _ in range(4):
            dx, dy, part = stage.some(-reach, reach), stage.some(-0.015, 0.015), stage.some(0.4, 0.7) * reach
            pen.oval(around(x + dx, y + dy, part, part / 2), 225)
    soft = mask.filter(ImageFilter.GaussianBlur(1.5)).resize(canvas.image.size, Image.Resampling.BICUBIC)
    canvas.image.paste(cloud, (0, 0), soft)
    return canvas


def covered(stage: Stage, material: str, zoom: float = 1) -> Canvas:
    return Canvas(stage).wall(material, (0, 1), zoom)


def lamp_light(middle: Point, reach: float, lit: Colour, rest: Colour, *, tall: float = 1.0) -> Image.Image:
    """Light of a colour round a place, falling off to what is left of it elsewhere; for `Scene.light`."""
    axis = (np.arange(32) + 0.5) / 32
    away = np.hypot(axis[np.newaxis] - middle[0], (axis[:, np.newaxis] - middle[1]) / tall) / reach
    near = np.exp(-(away**2))[..., np.newaxis]
    mixed = np.array(lit) * near + np.array(rest) * (1 - near)
    return Image.fromarray(np.rint(mixed).clip(0, 255).astype(np.uint8))


def even_light(colour: Colour) -> Image.Image:
    return Image.new("RGB", (1, 1), colour)


def layer(stage: Stage, colour: Colour) -> Canvas:
    """A transparent drawing; its colour is that of what will be drawn, so that edges keep it."""
    return Canvas(stage, Image.new("RGBA", (stage.side, stage.side), (*colour, 0)))
