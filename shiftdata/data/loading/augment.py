"""Augmentations for `transform=`: each makes other pixels of one picture, in the threads of a `Loader`.

All of them are called with a picture (uint8, height x width x 3) and a numpy generator. What they draw comes
from the generator alone. Their repr says what determines the pixels and can go into a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

from shiftdata.errors import InputError

Pixels: TypeAlias = NDArray[np.uint8]
Augmentation: TypeAlias = Callable[[Pixels, np.random.Generator], Pixels]
#: An operation of RandAugment on a picture, with a strength from -1 to 1.
Operation: TypeAlias = Callable[[Image.Image, float], Image.Image]

BILINEAR = Image.Resampling.BILINEAR
CUT, GREY = 0.5, 128  # the largest side of Cutout's square as a share of the picture's, and its colour


@dataclass(frozen=True)
class Shift:
    """A weak view: moved by up to `pixels` in each direction, the border repeated.

    With `flip`, it is mirrored half of the time.
    """

    pixels: int = 3
    flip: bool = False

    def __post_init__(self) -> None:
        if self.pixels < 0:
            raise InputError(f"pixels must be at least 0, got {self.pixels}")

    def __call__(self, x: Pixels, generator: np.random.Generator) -> Pixels:
        height, width = _size(x)
        # For one number, `integers` takes five times as long as `random`.
        down = int(generator.random() * (2 * self.pixels + 1)) - self.pixels
        right = int(generator.random() * (2 * self.pixels + 1)) - self.pixels
        if self.pixels >= min(height, width):
            down, right = max(1 - height, min(down, height - 1)), max(1 - width, min(right, width - 1))
        moved = _moved(x, down, right)
        return _mirrored(moved) if self.flip and generator.random() < 0.5 else moved


@dataclass(frozen=True)
class Strong:
    """A strong view: a weak one, RandAugment (Cubuk et al., 2020), then Cutout (DeVries & Taylor, 2017).

    RandAugment draws `operations` of `OPERATIONS`, each with a strength that is uniform from -1 to 1.
    """

    weak: Augmentation = Shift()
    operations: int = 2

    def __post_init__(self) -> None:
        if self.operations < 0 or not callable(self.weak):
            raise InputError(f"weak must be an augmentation, operations at least 0; got {self!r}")

    def __call__(self, x: Pixels, generator: np.random.Generator) -> Pixels:
        picture = _picture(self.weak(x, generator))
        for _ in range(self.operations):
            name = _NAMES[int(generator.random() * len(_NAMES))]
            picture = OPERATIONS[name](picture, 2 * generator.random() - 1)
        return cutout(np.array(picture), generator)


@dataclass(frozen=True)
class DomainBed:
    """The augmentation of DomainBed (Gulrajani & Lopez-Paz, 2021) to `size` x `size` pixels.

    It is torchvision's RandomResizedCrop of .7 to 1 of the area, RandomHorizontalFlip, ColorJitter of .3 each
    and RandomGrayscale of .1. The normalisation is the network's affair.
    """

    size: int = 224

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"size must be at least 1, got {self.size}")

    def __call__(self, x: Pixels, generator: np.random.Generator) -> Pixels:
        height, width = _size(x)
        top, left, crop_height, crop_width = random_crop(height, width, generator)
        # Pillow reads a box as `crop` followed by `resize` would: nothing outside of it counts.
        crop = _picture(x[top : top + crop_height, left : left + crop_width])
        picture = crop.resize((self.size, self.size), BILINEAR)
        if generator.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        for number in generator.permutation(len(JITTER)):
            picture = JITTER[number](picture, generator.uniform(-0.3, 0.3))
        if generator.random() < 0.1:
            picture = picture.convert("L").convert("RGB")
        return np.array(picture)


@dataclass(frozen=True, init=False, repr=False)
class Views:
    """Several views of one picture, stacked: views x height x width x 3.

    A loader's batch of them is pictures x views x height x width x 3.
    """

    views: tuple[Augmentation, ...]

    def __init__(self, weak: Augmentation, *strong: Augmentation) -> None:
        object.__setattr__(self, "views", (weak, *strong))
        if not all(map(callable, self.views)):
            raise InputError(f"views are augmentations, such as Shift(3) and Strong(); got {self!r}")

    def __repr__(self) -> str:
        return f"Views({', '.join(map(repr, self.views))})"

    def __call__(self, x: Pixels, generator: np.random.Generator) -> Pixels:
        views = [view(x, generator) for view in self.views]
        if len({view.shape for view in views}) > 1:
            raise InputError(f"the views of a picture must have one shape, got {[v.shape for v in views]}")
        return np.stack(views)


def random_crop(height: int, width: int, generator: np.random.Generator) -> tuple[int, int, int, int]:
    """Draw top, left, height and width as torchvision's RandomResizedCrop does, of .7 to 1 of the area."""
    low, high = 3 / 4, 4 / 3
    for _ in range(10):
        area = height * width * generator.uniform(0.7, 1)
        ratio = math.exp(generator.uniform(math.log(low), math.log(high)))
        crop_width, crop_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            top = int(generator.integers(height - crop_height + 1))
            left = int(generator.integers(width - crop_width + 1))
            return top, left, crop_height, crop_width
    crop_height, crop_width = min(height, round(width / low)), min(width, round(height * high))
    return (height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width


def cutout(x: Pixels, generator: np.random.Generator) -> Pixels:
    """Put a grey square of up to half of the side anywhere on the picture; parts of it may lie outside."""
    share, *centre = (generator.random() for _ in range(3))
    # A pixel is covered where its centre is.
    rows, columns = (
        slice(*(max(0, math.ceil((at + side * CUT * share / 2) * size - 0.5)) for side in (-1, 1)))
        for at, size in zip(centre, x.shape, strict=False)
    )
    x[rows, columns] = GREY
    return x


def _size(x: Pixels) -> tuple[int, int]:
    if x.dtype != np.uint8 or x.ndim != 3 or x.shape[2] != 3 or not x.size:
        raise InputError(f"augmentations are for uint8 pictures, height x width x 3; got {x.dtype} {x.shape}")
    return x.shape[0], x.shape[1]


def _picture(x: Pixels) -> Image.Image:
    _size(x)
    return Image.fromarray(x)


def _moved(x: Pixels, down: int, right: int) -> Pixels:
    """Read each pixel `down` and `right` of its place. Slices: an indexed copy takes four times as long."""
    height, width = x.shape[:2]
    moved = np.empty((height, width, 3), np.uint8)
    top, bottom = max(-down, 0), height - max(down, 0)
    left, end = max(-right, 0), width - max(right, 0)
    moved[top:bottom, left:end] = x[top + down : bottom + down, left + right : end + right]
    # Empty slices take as long as others.
    if left:
        moved[top:bottom, :left] = moved[top:bottom, left : left + 1]
    elif right:
        moved[top:bottom, end:] = moved[top:bottom, end - 1 : end]
    if top:
        moved[:top] = moved[top]
    elif down:
        moved[bottom:] = moved[bottom - 1]
    return moved


def _mirrored(x: Pixels) -> Pixels:
    """Mirror by channel: numpy copies pixels of three bytes in reverse order three times slower."""
    mirrored = np.empty_like(x)
    for channel in range(3):
        mirrored[:, :, channel] = x[:, ::-1, channel]
    return mirrored


def posterised(picture: Image.Image, strength: float) -> Image.Image:
    """Leave 4 to 8 bits of each value. For small pictures, Pillow's tables take three times as long."""
    dropped = round(4 * abs(strength))
    return Image.fromarray(np.asarray(picture) >> dropped << dropped)


def solarised(picture: Image.Image, strength: float) -> Image.Image:
    """Invert values from a threshold on; at strength 0 there is none."""
    x = np.asarray(picture)
    return Image.fromarray(np.where(x < 255 * (1 - abs(strength)), x, 255 - x)) if strength else picture


def hue_turned(picture: Image.Image, turns: float) -> Image.Image:
    """Turn the hue, of which Pillow has 256 values."""
    hue, saturation, value = picture.convert("HSV").split()
    turn = int(255 * turns) % 256
    turned = hue.point([*range(turn, 256), *range(turn)])
    return Image.merge("HSV", (turned, saturation, value)).convert("RGB")


def warped(
    picture: Image.Image, across: tuple[float, float], along: tuple[float, float], move: tuple[float, float]
) -> Image.Image:
    """Read each pixel where a linear map about the centre and a move (in pixels) say, the border repeated."""
    width, height = picture.size
    # Pillow does not repeat a border: add as much of it as the corners reach, and half a pixel for rounding.
    right, down = (
        max(
            0, math.ceil((abs(row[0]) * (width - 1) + abs(row[1]) * (height - 1) - size) / 2 + abs(shift) + 1)
        )
        for row, shift, size in zip((across, along), move, picture.size, strict=True)
    )
    terms = [
        (*row, shift + padding + (size - row[0] * width - row[1] * height) / 2)
        for row, shift, padding, size in zip((across, along), move, (right, down), picture.size, strict=True)
    ]
    padded = Image.fromarray(_padded(np.asarray(picture), down, right))
    return padded.transform(picture.size, Image.Transform.AFFINE, (*terms[0], *terms[1]), BILINEAR)


def _padded(x: Pixels, down: int, right: int) -> Pixels:
    """Repeat the border on both sides of each axis; `np.pad` takes ten times as long."""
    height, width = x.shape[:2]
    padded = np.empty((height + 2 * down, width + 2 * right, 3), np.uint8)
    inside = padded[down : down + height]
    inside[:, right : right + width] = x
    inside[:, :right], inside[:, right + width :] = x[:, :1], x[:, -1:]
    padded[:down], padded[down + height :] = inside[0], inside[-1]
    return padded


def _rotated(picture: Image.Image, strength: float) -> Image.Image:
    cos, sin = math.cos(strength * math.pi / 6), math.sin(strength * math.pi / 6)
    return warped(picture, (cos, -sin), (sin, cos), (0, 0))


#: What RandAugment draws from. Strengths go in either direction, and at strength 0 nothing changes, except by
#: autocontrast and equalised, which have no strength.
OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "identity": lambda picture, s: picture,
        "autocontrast": lambda picture, s: ImageOps.autocontrast(picture),
        "brightness": lambda picture, s: ImageEnhance.Brightness(picture).enhance(1 + 0.9 * s),
        "colour": lambda picture, s: ImageEnhance.Color(picture).enhance(1 + 0.9 * s),
        "contrast": lambda picture, s: ImageEnhance.Contrast(picture).enhance(1 + 0.9 * s),
        "equalised": lambda picture, s: ImageOps.equalize(picture),
        "posterised": posterised,
        "rotated": _rotated,
        "sharpness": lambda picture, s: ImageEnhance.Sharpness(picture).enhance(1 + 0.9 * s),
        "sheared": lambda picture, s: warped(picture, (1, 0.3 * s), (0, 1), (0, 0)),
        "sheared down": lambda picture, s: warped(picture, (1, 0), (0.3 * s, 1), (0, 0)),
        "solarised": solarised,
        "translated": lambda picture, s: warped(picture, (1, 0), (0, 1), (0.3 * s * picture.width, 0)),
        "translated down": lambda picture, s: warped(picture, (1, 0), (0, 1), (0, 0.3 * s * picture.height)),
    }
)
_NAMES = tuple(OPERATIONS)
#: The operations of torchvision's ColorJitter, each by how far its factor is from the one of no change.
JITTER: tuple[Operation, ...] = (
    lambda picture, s: ImageEnhance.Brightness(picture).enhance(1 + s),
    lambda picture, s: ImageEnhance.Contrast(picture).enhance(1 + s),
    lambda picture, s: ImageEnhance.Color(picture).enhance(1 + s),
    hue_turned,
)
