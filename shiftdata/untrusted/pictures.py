"""Pictures of anybody: their pixels are checked by the header, and held in a budget of the process."""

from __future__ import annotations

import io
import re
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageFile, ImageOps, TiffImagePlugin, WebPImagePlugin  # noqa: F401  # `preinit` has the others

from shiftdata.errors import InputError, IntegrityError, ShiftdataError
from shiftdata.files import open_regular
from shiftdata.untrusted.limits import check, most

#: Formats that Pillow itself decodes; among others is one that runs Ghostscript.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
#: Smaller pictures do not count: each thread has few of them, and their training must not wait for a lock.
SMALL = 1 << 20
#: Pixels of 4 bytes each that are decoded for a small picture of them.
MOST_OF_THUMBNAIL = 30_000_000
#: What Pillow's plugins raise, each its own.
DAMAGE = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError, AttributeError),
    *(RuntimeError, AssertionError, struct.error, zlib.error),
    UserWarning,  # of corrupt EXIF data, where a program makes errors of warnings
)


class UndecodableError(IntegrityError):
    """Bytes are no picture, or no whole one."""


class _Budget:
    """The pixels that are decoded now; whoever wants more waits until others are done."""

    def __init__(self) -> None:
        self._free, self._held, self._mine = threading.Condition(), 0, threading.local()

    @contextmanager
    def holding(self, pixels: int) -> Iterator[None]:
        # A thread that holds pixels never waits: two might wait for each other.
        mine = getattr(self._mine, "pixels", 0)
        with self._free:
            self._free.wait_for(
                lambda: mine or not self._held or self._held + pixels <= most("picture_budget")
            )
            self._held += pixels
        self._mine.pixels = mine + pixels
        try:
            yield
        finally:
            self._mine.pixels = mine
            with self._free:
                self._held -= pixels
                self._free.notify_all()


_budget = _Budget()


@contextmanager
def held(width: int, height: int, name: str = "the picture") -> Iterator[None]:
    """Hold the pixels of a picture in the budget of the process while it is decoded; refuse too many."""
    pixels = width * height
    if pixels <= SMALL:
        yield
        return
    for limit in ("picture_pixels", "picture_budget"):
        check(limit, pixels, name, f"has {width:,} x {height:,} pixels")
    with _budget.holding(pixels):
        yield


@contextmanager
def open_picture(
    source: bytes | Path | BinaryIO, name: str = "", *, formats: Sequence[str] = FORMATS
) -> Iterator[ImageFile.ImageFile]:
    """Open a picture, whose pixels are held in the budget until the block ends.

    What cannot be opened or decoded in the block is an `IntegrityError`.
    """
    name = name or (source.name if isinstance(source, Path) else "the picture")
    if isinstance(source, Path):
        with open_regular(source) as stream, open_picture(stream, name, formats=formats) as picture:
            yield picture
        return
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    check("picture_bytes", size, name)
    with undamaged(name), _opened(stream, formats) as picture, held(*picture.size, name):
        yield picture


def decoded_picture(source: bytes | Path, mode: str = "RGB", name: str = "") -> Image.Image:
    """Return a whole picture in a mode; its pixels are no longer held in the budget."""
    with open_picture(source, name) as picture:
        return picture.convert(mode)


def thumbnail(data: bytes, side: int) -> Image.Image:
    """Return a picture within a square of `side` pixels, turned as its camera says."""
    with open_picture(data) as opened:
        size = opened.size
        opened.draft("RGB", (side, side))  # a JPEG is decoded at half, a quarter or an eighth of its size
        if opened.width * opened.height > MOST_OF_THUMBNAIL:
            raise InputError(
                f"a picture of {size[0]:,} x {size[1]:,} pixels is not shown: at most {MOST_OF_THUMBNAIL:,} "
                "are decoded here; load the dataset to see it"
            )
        opened.load()
        # A large picture is made smaller before it is converted: each copy of it takes 4 bytes a pixel.
        is_plain = opened.mode in ("L", "LA", "RGB", "RGBA") and "transparency" not in opened.info
        picture: Image.Image = opened if is_plain else opened.convert("RGBA")
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        return ImageOps.exif_transpose(picture).convert("RGBA")


def _opened(stream: BinaryIO, formats: Sequence[str]) -> ImageFile.ImageFile:
    """Open a picture as `Image.open` does, which has a limit of its own, the same for every caller."""
    Image.preinit()
    start = stream.read(16)
    for known in formats:
        factory, accept = Image.OPEN[known]
        stream.seek(0)
        if accept is None or accept(start) is True or (accept(start) and not isinstance(accept(start), str)):
            return factory(stream, "")
    raise SyntaxError(f"it is none of {', '.join(formats)}")


@contextmanager
def undamaged(name: str) -> Iterator[None]:
    """Turn whatever a decoder raises, each its own, into an `IntegrityError`."""
    try:
        yield
    except ShiftdataError:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno:  # of the disk, and not of what is in the file
            raise
        text = re.sub(" *<.*?>", "", str(error))  # an object's address in memory
        raise UndecodableError(f"{name} cannot be decoded ({type(error).__name__}: {text})") from error
