"""A scene, the stage it is drawn on, the pen that draws it, and a cut-out that is set into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from builders.shifts.drawing import Colour, palette

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


PLAIN = (244, 241, 234)
FILLED = 0.92  # of the side, by a cut-out that no context surrounds
SMALLEST = 0.3  # of the side; only what is far away is smaller
TILT = 18.0  # degrees to either side
FARTHEST = 0.15  # of the side, by which the foot stands higher than in front
NEAREST_VIEW = 0.68  # of the side of a scene: the least that is looked at
SEEN = 0.75  # of an object's width and height, at least: the frame may cut off the rest
APART = 50  # of 255, by which an object differs from what surrounds it, if its outline is to be seen
BRIGHT, DARK = (255, 238, 208), (16, 18, 28)


def in_context(cutout: Image.Image, make: Make, stage: Stage) -> Image.Image:
    """The picture of a cut-out in a context.

    At strength 0 the object stands large and upright in the middle of a plain ground, at 1 in the whole
    context; between them its size, tilt and place, the light, and everything before and behind it move
    evenly. Where it stands, how large it is and which part of the scene is seen is drawn anew each time, so
    that no place in the picture is the object's.
    """
    scene, strength, side = make(stage), stage.strength, stage.side
    whole = cutout.crop(cutout.getbbox())
    posed = scene.pose(whole) if scene.pose and strength else whole
    drawn, smaller, far = stage.some(*scene.share), stage.some(0.5, 1), stage.some(0, 1)
    across, turn = stage.some(*scene.across), stage.some(-TILT, TILT)
    view = [stage.some(0, 1) for _ in range(3)]
    far = 0 if scene.still else far
    posed = turned(posed, turn * strength)
    share = max(min(drawn, SMALLEST), drawn * smaller * (1 - far / 4))
    scale = _between(FILLED, share, strength) * side / max(posed.size)
    width, height = (max(1, round(edge * scale)) for edge in posed.size)
    posed = posed.convert("RGBa").resize((width, height), Image.Resampling.LANCZOS).convert("RGBA")
    half = min(0.5, width / side / 2 + 0.01)  # keeps it within the scene
    middle = _between(0.5, min(max(across, half), 1 - half), strength) * side
    ground = scene.ground - far * FARTHEST
    foot = _between((side + height) / 2, ground * side + scene.sunk * height, strength)
    left, top = round(middle - width / 2), round(foot - height)
    picture = _set_in(scene, posed, (left, top), strength, side)
    box = _view((left / side, top / side, (left + width) / side, foot / side), view, strength)
    seen = (box[0] * side, box[1] * side, box[2] * side, box[3] * side)
    picture = picture.resize((stage.size, stage.size), Image.Resampling.LANCZOS, seen)
    return scene.lens(picture) if scene.lens is not None and strength else picture


def _set_in(
    scene: Scene, posed: Image.Image, place: tuple[int, int], strength: float, side: int
) -> Image.Image:
    alpha = posed.getchannel("A")
    picture = Image.blend(Image.new("RGB", (side, side), PLAIN), scene.back.image, strength)
    _cast_shadow(picture, alpha, place, scene.shadow * strength)
    tint = tuple(round(_between(255, part, strength)) for part in scene.tint)
    picture.paste(ImageChops.multiply(posed.convert("RGB"), Image.new("RGB", posed.size, tint)), place, alpha)
    if scene.front is not None:
        front = scene.front.image
        veil = front.getchannel("A").point(lambda part: round(part * strength))
        picture.paste(front.convert("RGB"), (0, 0), veil)
    if scene.light is not None:
        light = scene.light.resize((side, side), Image.Resampling.BICUBIC)
        white = Image.new("RGB", (side, side), (255, 255, 255))
        picture = ImageChops.multiply(picture, Image.blend(white, light, strength))
    outline = Image.new("L", (side, side))
    outline.paste(alpha, place)
    _set_apart(picture, outline, strength)
    return picture


def _set_apart(picture: Image.Image, outline: Image.Image, strength: float) -> None:
    """Light up or shade what surrounds an object, as much as it needs to stand out."""
    wide = outline.filter(ImageFilter.GaussianBlur(picture.width / 28)).point(lambda part: min(255, 2 * part))
    halo = ImageChops.subtract(wide, outline)
    pixels = np.asarray(picture, dtype=np.float64)
    inside, around = pixels[np.asarray(outline) > 127], pixels[np.asarray(halo) > 127]
    if not len(inside) or not len(around):
        return
    ground = np.median(around, axis=0)
    best, part, tone = np.abs(inside - ground).mean(), 0.0, BRIGHT
    for more in (0.3, 0.5, 0.7, 0.9):
        for light in (BRIGHT, DARK):
            apart = np.abs(inside - (ground + (np.array(light) - ground) * more)).mean()
            if best < min(apart, APART):
                best, part, tone = apart, more, light
    if part:
        picture.paste(tone, mask=halo.point(lambda there: round(there * part * strength)))


def _view(thing: Box, drawn: list[float], strength: float) -> Box:
    """Return the visible part of a scene, with the required share of the object in it."""
    left, top, right, bottom = thing
    edge = _between(1, NEAREST_VIEW + drawn[0] * (1 - NEAREST_VIEW), strength)
    edge = min(1, max(edge, SEEN * max(right - left, bottom - top)))
    start = []
    for low, high, part in ((left, right, drawn[1]), (top, bottom, drawn[2])):
        hidden = (1 - SEEN) * (high - low)
        first = min(max(0, high - hidden - edge), 1 - edge)
        last = max(first, min(1 - edge, low + hidden))
        start.append(_between(first, last, part))
    return start[0], start[1], start[0] + edge, start[1] + edge


def _between(start: float, end: float, strength: float) -> float:
    return start + (end - start) * strength


def _cast_shadow(picture: Image.Image, alpha: Image.Image, place: tuple[int, int], dark: float) -> None:
    """Darken the ground under the object: its own outline lying flat, soft, and darkest at the foot."""
    if dark <= 0:
        return
    width, height = alpha.width, max(3, round(alpha.width * 0.22))
    edge = max(1.5, picture.width / 50)
    room = round(2 * edge)
    flat = Image.new("L", (width + 2 * room, height + 2 * room))
    flat.paste(alpha.resize((width, height)), (room, room))
    soft = flat.filter(ImageFilter.GaussianBlur(edge)).point(lambda part: round(part * dark))
    foot = place[1] + alpha.height
    picture.paste((12, 14, 24), (place[0] - room, round(foot - height * 0.62) - room), soft)
