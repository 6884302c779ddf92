"""Steps that bring every picture to one size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from PIL import Image, ImageFilter

from builders.sample import BadItem, Sample
from builders.shifts.drawing import SMALLEST
from shiftdata.errors import InputError
from shiftdata.stable import rng

#: What stands behind transparent pixels: one colour for all, or a soft ground that each key draws.
Ground: TypeAlias = tuple[int, int, int] | Literal["drawn"]

Box: TypeAlias = tuple[float, float, float, float]

CANDIDATES = 8  # colours to choose a drawn ground from
NEAR = 100  # colours whose parts differ by less in sum may be mistaken for each other
TINTED = ((1, 1), (0.25, 3))  # how much a ground varies in light, in one channel, and in colour


@dataclass(frozen=True, kw_only=True)
class Framing(ABC):
    """Base of framing steps. A picture with transparent pixels ends on a `ground`, as RGB like every other.

    One colour behind all of them would give away which pictures were transparent, and with them the domain
    where only one has such files. So a ground is `"drawn"`: shaded and grained, in a colour that differs
    from the object's.
    """

    size: int
    ground: Ground = "drawn"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"{type(self).__name__} needs a size of at least 1 pixel, got {self.size}")

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            yield replace(sample, example=self.compose(sample.image, sample.item.key))

    def compose(self, picture: Image.Image, key: str = "") -> Image.Image:
        """The picture in its frame; `key` draws the ground."""
        cutout = picture.convert("RGBA")
        opaque = cutout.getchannel("A").getextrema()[0] == 255
        framed = self.frame(cutout.convert("RGB") if opaque else cutout)
        if framed.mode == "RGB":
            return framed
        if self.ground == "drawn":
            ground = _drawn(framed, key)
        else:
            ground = Image.new("RGBA", framed.size, (*self.ground, 255))
        ground.alpha_composite(framed)
        return ground.convert("RGB")

    @abstractmethod
    def frame(self, picture: Image.Image) -> Image.Image:
        """A picture of the step's size, from one in RGB or RGBA; RGBA where the ground is to be seen."""


@dataclass(frozen=True, kw_only=True)
class Resize(Framing):
    """Resize each picture to a square, which stretches it: for pictures that nearly are squares."""

    code_version: ClassVar[int] = 1

    def frame(self, picture: Image.Image) -> Image.Image:
        return _resized(picture, (self.size, self.size))


@dataclass(frozen=True, kw_only=True)
class CropSquare(Framing):
    """The largest square in the middle of each picture, resized. What lies beside it is lost."""

    code_version: ClassVar[int] = 1

    def frame(self, picture: Image.Image) -> Image.Image:
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        return _resized(picture, (self.size, self.size), (left, top, left + side, top + side))


@dataclass(frozen=True, kw_only=True)
class Pad(Framing):
    """Each whole picture, with bars filled from itself: mirrored, by its edge pixels, or by its blurred self.

    Bars of one colour would give away the shape of the file. Those of a transparent picture show the ground.
    """

    code_version: ClassVar[int] = 1

    fill: Literal["reflect", "edge", "blur"] = "reflect"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fill not in ("reflect", "edge", "blur"):
            raise InputError(f"Pad fills by 'reflect', 'edge' or 'blur', got {self.fill!r}")

    def frame(self, picture: Image.Image) -> Image.Image:
        fitted = _fitted(picture, self.size)
        if picture.mode == "RGBA":
            return _centred(fitted, self.size)
        if self.fill == "blur":
            behind = CropSquare(size=self.size).frame(picture)
            return _centred(fitted, self.size, behind.filter(ImageFilter.GaussianBlur(self.size / 16)))
        spare = [self.size - fitted.height, self.size - fitted.width, 0]
        bars = [(room // 2, room - room // 2) for room in spare]
        mode: Literal["symmetric", "edge"] = "symmetric" if self.fill == "reflect" else "edge"
        return Image.fromarray(np.pad(np.asarray(fitted), bars, mode=mode))


@dataclass(frozen=True, kw_only=True)
class OnGround(Framing):
    """Cut-outs on a plain ground: centred, scaled to fit, with a margin (a share of the side).

    For albums that are transparent throughout: an opaque picture that is not square gets bars in the colour
    of the ground.
    """

    code_version: ClassVar[int] = 1

    ground: Ground = (244, 241, 234)
    margin: float = 0

    @property
    def inner(self) -> int:
        return self.size - 2 * round(self.size * self.margin)

    def frame(self, picture: Image.Image) -> Image.Image:
        return _centred(_fitted(picture.convert("RGBA"), self.inner), self.size)


def _fitted(picture: Image.Image, size: int) -> Image.Image:
    scale = size / max(picture.size)
    return _resized(picture, (max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))


def _centred(picture: Image.Image, size: int, behind: Image.Image | None = None) -> Image.Image:
    canvas = behind or Image.new(picture.mode, (size, size))
    canvas.paste(picture, ((size - picture.width) // 2, (size - picture.height) // 2))
    return canvas


def _resized(picture: Image.Image, size: tuple[int, int], box: Box | None = None) -> Image.Image:
    if picture.mode != "RGBA":
        return picture.resize(size, Image.Resampling.LANCZOS, box)
    if picture.size == size and box is None:
        return picture
    # Premultiplied, so that the colour of fully transparent pixels does not bleed into the edge.
    return picture.convert("RGBa").resize(size, Image.Resampling.LANCZOS, box).convert("RGBA")


def _drawn(cutout: Image.Image, key: str) -> Image.Image:
    """A ground as uneven as photographs are, around a colour that stands out from the cut-out."""
    random = rng("ground", key)
    vivid = random.uniform(0, 255, (CANDIDATES, 3))
    grey = vivid.mean(axis=1, keepdims=True)
    colours = grey + (vivid - grey) * random.uniform(0, 0.7, (CANDIDATES, 1))  # as muted as most things are
    pixels = np.asarray(cutout).reshape(-1, 4).astype(np.int64)
    seen = pixels[pixels[:, 3] > 127][:, :3]
    near = [int((np.abs(seen - colour).sum(axis=1) < NEAR).sum()) for colour in colours]
    made = np.tile(colours[int(np.argmin(near))], (cutout.height, cutout.width, 1))
    depth = random.uniform(15, 60)
    for cells, part in ((3, 1), (12, 0.4), (48, 0.25)):
        light, tint = (random.normal(0, depth * part * share, (cells, cells, of)) for share, of in TINTED)
        bright = Image.fromarray(np.clip(128 + light + tint, 0, 255).astype(np.uint8))
        made += np.asarray(bright.resize(cutout.size, Image.Resampling.BICUBIC), dtype=np.float64) - 128
    made += random.normal(0, random.uniform(0, 6), (*made.shape[:2], 1))  # grain
    return Image.fromarray(np.clip(made, 0, 255).astype(np.uint8)).convert("RGBA")


def framed(sample: Sample) -> Image.Image:
    """The picture of a sample; refused where `prepare` should have framed it, left out where it is tiny."""
    if sample.image.mode != "RGB":
        raise InputError(
            f"the picture of {sample.key} is {sample.image.mode}, not RGB: put a step into the recipe's "
            "prepare that makes it so, such as CropSquare, Pad or OnGround"
        )
    if min(sample.image.size) < SMALLEST:
        width, height = sample.image.size
        raise BadItem(f"fewer than {SMALLEST} pixels wide or high ({width} x {height})")
    return sample.image


@dataclass(frozen=True, kw_only=True)
class OneStrength:
    """Base of steps that draw by seed, content and nuisance, in one strength from 0 (none) to 1 (full)."""

    seed: int
    dataset: str
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength must be between 0 and 1, got {self.strength}")

    @property
    def severities(self) -> tuple[float, ...]:
        return (self.strength,)
