"""Augmentations for `transform=`, which run in the threads of a `Loader`.

Each takes a picture (uint8, height x width x 3) and a numpy generator, its only source of randomness. Its
repr names everything that determines the pixels and can go into a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from shiftdata.data.arrays import IntArray
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

    def __call__(self, x: Pixels, generator: np.random.Generator) -> Pixels:
        height, width = _size(x)
        # For a single draw, `integers` takes five times as long as `random`.
        down, right = (int(generator.random() * (2 * self.pixels + 1)) - self.pixels for _ in range(2))
        rows, columns = np.arange(height) + down, np.arange(width) + right
        return _taken(x, rows, columns[::-1] if self.flip and generator.random() < 0.5 else columns)


@dataclass(frozen=True)
class Strong:
    """A strong view: a weak one, RandAugment (Cubuk et al., 2020), then Cutout (DeVries & Taylor, 2017).

    RandAugment draws `operations` of `OPERATIONS`, each with a strength that is uniform from -1 to 1.
    """

    weak: Augmentation = Shift()
    operations: int = 2

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
    and RandomGrayscale of .1, without normalisation.
    """

    size: int = 224

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


@dataclass(frozen=True)
class ContrastiveView:
    """A view of `size` x `size` pixels as MoCo v2 makes it, to pretrain without labels (Chen et al., 2020).

    A crop of .2 to 1 of the area; with probability .8 ColorJitter of .4 each and .1 of the hue; grey with .2;
    with .5 a Gaussian blur of .1 to 2 pixels at 224, less where pictures are smaller. With `flip`, it is
    mirrored half of the time.
    """

    size: int = 224
    flip: bool = False

    def __call__(self, x: Pixels, generator: np.random.Generator) -> Pixels:
        top, left, height, width = random_crop(*_size(x), generator, least=0.2)
        crop = _picture(x[top : top + height, left : left + width])
        picture = crop.resize((self.size, self.size), BILINEAR)
        if self.flip and generator.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if generator.random() < 0.8:
            for number in generator.permutation(len(JITTER)):
                most = 0.1 if JITTER[number] is hue_turned else 0.4
                picture = JITTER[number](picture, generator.uniform(-most, most))
        if generator.random() < 0.2:
            picture = picture.convert("L").convert("RGB")
        if generator.random() < 0.5:
            picture = picture.filter(ImageFilter.GaussianBlur(generator.uniform(0.1, 2) * self.size / 224))
        return np.array(picture)


@dataclass(frozen=True, init=False, repr=False)
class Views:
    """Several views of one picture, stacked: views x height x width x 3.

    A loader's batch of them is pictures x views x height x width x 3.
    """

    views: tuple[Augmentation, ...]

    def __init__(self, weak: Augmentation, *strong: Augmentation) -> None:
        object.__setattr__(self, "views", (weak, *strong))

    def __repr__(self) -> str:
        return f"Views({', '.join(map(repr, self.views))})"

    def __call__(self, x: Pixels, generator: np.random.Generator) -> Pixels:
        views = [view(x, generator) for view in self.views]
        return np.stack(views)


def random_crop(
    height: int, width: int, generator: np.random.Generator, least: float = 0.7
) -> tuple[int, int, int, int]:
    """Draw top, left, height and width as torchvision's RandomResizedCrop, of `least` to 1 of the area."""
    low, high = 3 / 4, 4 / 3
    for _ in range(10):
        area = height * width * generator.uniform(least, 1)
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


def _taken(x: Pixels, rows: IntArray, columns: IntArray) -> Pixels:
    """Take rows and columns, the border repeated outside. Axis by axis is faster than both at once."""
    return x.take(rows, axis=0, mode="clip").take(columns, axis=1, mode="clip")


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
    rows, columns = np.arange(-down, height + down), np.arange(-right, width + right)
    padded = Image.fromarray(_taken(np.asarray(picture), rows, columns))
    return padded.transform(picture.size, Image.Transform.AFFINE, (*terms[0], *terms[1]), BILINEAR)


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
