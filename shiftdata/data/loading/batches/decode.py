"""Encoded pictures to pixels: by libjpeg-turbo where simplejpeg is installed, else by Pillow; equal pixels.

Only Pillow says what is damaged: whatever the faster decoder refuses is handed to it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shiftdata.errors import LimitError
from shiftdata.untrusted.pictures import held, open_picture

Pixels: TypeAlias = NDArray[np.uint8]
#: Height and width.
Size: TypeAlias = tuple[int, int]


class CenterCrop(tuple[int, int]):
    """The height and width that are cut out of the middle of a resized picture: what trained models expect.

    `shorter` is the pixels of the shorter side before the cut, or a height and width for all pictures;
    `resampling` is Pillow's. A JPEG is decoded whole, so that pixels are those of a model's own transform.
    """

    shorter: int | Size
    resampling: Image.Resampling

    def __new__(cls, size: Size, shorter: int | Size, resampling: int = 2) -> CenterCrop:
        crop = super().__new__(cls, size)
        crop.shorter, crop.resampling = shorter, Image.Resampling(resampling)
        return crop

    def __repr__(self) -> str:
        resampling = self.resampling.name.lower()
        return f"{self[0]} x {self[1]} of the middle, resized to {self.shorter} by {resampling}"

    def of(self, picture: Image.Image) -> Image.Image:
        """Resize and cut a picture; what is smaller than the cut gets a black border."""
        if isinstance(self.shorter, tuple):
            wide, high = self.shorter[::-1]
        else:
            # The ends of a long strip go first: 1 x 60,000 pixels would become gigabytes.
            picture = _middle(picture, *(min(side, LONGEST * min(picture.size)) for side in picture.size))
            wide, high = (int(self.shorter * side / min(picture.size)) for side in picture.size)
        if picture.size != (wide, high):
            picture = picture.resize((wide, high), self.resampling)
        return _middle(picture, self[1], self[0])


def _middle(picture: Image.Image, width: int, height: int) -> Image.Image:
    left, top = round((picture.width - width) / 2), round((picture.height - height) / 2)
    return picture.crop((left, top, left + width, top + height))


JPEG = b"\xff\xd8\xff"
#: The longest side that a picture may have before it is cut, by the shorter one.
LONGEST = 32
#: Markers of the frame header, which has the size; between them are other tables.
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def decode(data: bytes, *, size: Size | None = None, out: Pixels | None = None) -> Pixels:
    """Decode a JPEG, PNG or WebP picture to RGB, height x width x 3.

    `size` resizes the picture, whatever its shape was, or is a `CenterCrop`. A large JPEG is decoded at a
    half, a quarter or an eighth first where it is resized, which makes it cheap. The pixels are put into
    `out` if it has their shape.
    """
    turbo = _turbo()
    if turbo is not None and data.startswith(JPEG):
        try:
            return _by_turbo(turbo, data, size, out)
        except LimitError:
            raise
        except ValueError:  # Pillow reads it, or says what is wrong
            pass
    return _by_pillow(data, size, out)


@cache
def _turbo() -> Any:
    return import_module("simplejpeg") if find_spec("simplejpeg") else None


def _by_turbo(turbo: Any, data: bytes, size: Size | None, out: Pixels | None) -> Pixels:
    height, width, inks = _frame(data)
    if inks == 4:
        raise ValueError("it has a rounding of its own for them")
    scale = 1 if size is None or isinstance(size, CenterCrop) else _scale((height, width), size)
    least = (-(-height // scale), -(-width // scale))
    place = out if out is not None and out.shape == (*least, 3) else None
    with held(*least, "it"):
        picture: Pixels = turbo.decode_jpeg(data, min_height=least[0], min_width=least[1], buffer=place)
    if picture.shape[:2] != least:
        raise ValueError("its size is not that of its frame header")
    if size is None or (size == least and not isinstance(size, CenterCrop)):
        return picture if place is None else place
    return _placed(Image.fromarray(picture), size, out)


def _frame(data: bytes) -> tuple[int, int, int]:
    """Read height, width and number of inks of a JPEG. The library would release the interpreter's lock."""
    at = 2
    while len(data) > at + 9 and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in FRAMES:
            return data[at + 5] << 8 | data[at + 6], data[at + 7] << 8 | data[at + 8], data[at + 9]
        at += 1 if marker == 0xFF else 2 + (data[at + 2] << 8 | data[at + 3])
    raise ValueError("it has no frame header")


def _by_pillow(data: bytes, size: Size | None, out: Pixels | None) -> Pixels:
    with open_picture(data, "it") as picture:
        if size is not None and not isinstance(size, CenterCrop):
            picture.draft("RGB", size[::-1])
        return _placed(picture.convert("RGB"), size, out)


def _scale(full: Size, size: Size) -> int:
    """Return by how much a JPEG may be decoded smaller, by the rule of Pillow's `draft`."""
    smallest = min(full[0] // size[0], full[1] // size[1])
    return next((scale for scale in (8, 4, 2) if smallest >= scale), 1)


def _placed(picture: Image.Image, size: Size | None, out: Pixels | None) -> Pixels:
    if isinstance(size, CenterCrop):
        picture = size.of(picture)
    elif size is not None and picture.size != size[::-1]:
        picture = picture.resize(size[::-1], Image.Resampling.BILINEAR)
    pixels = np.asarray(picture)
    if out is None or out.shape != pixels.shape:
        return pixels.copy()
    out[...] = pixels
    return out
