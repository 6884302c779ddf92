"""Many small pictures as one file, for pages that cannot ask for each."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from PIL import Image, ImageOps

from shiftdata.errors import InputError

QUALITY = 82
#: What a browser may take a picture for; whatever else it says of itself is drawn anew or not shown.
TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
#: A picture of more bytes is shown as a smaller one, of so many pixels a side.
LARGE, WHOLE = 2_000_000, 1024
#: Pixels that are decoded, of 4 bytes each; those of a JPEG that is decoded at half its size or less.
MOST_PIXELS, MOST_READ = 30_000_000, 60_000_000
#: What stands in a sprite for a picture that cannot be decoded.
GREY = (128, 128, 128, 96)
#: What Pillow raises for pictures that are none; a `LargePictureError` is a ValueError.
UNREADABLE = (OSError, SyntaxError, ValueError)


class LargePictureError(InputError):
    """A picture has more pixels than are decoded."""

    def __init__(self, size: tuple[int, int] | None = None) -> None:
        what = f"a picture of {size[0]:,} x {size[1]:,} pixels" if size else "a picture of so many pixels"
        super().__init__(
            f"{what} is not shown: at most {MOST_PIXELS:,} are decoded here; load the dataset to see it"
        )


def sprite(pictures: Sequence[bytes | None], side: int, columns: int) -> bytes:
    """Pictures in rows of some columns as WebP, each in a square of `side` pixels at most.

    What is left of a square, and that of None, is transparent; a picture that cannot be decoded is grey.
    """
    tiles = [None if data is None else _tile(data, side) for data in pictures]
    side = max((max(tile.size) for tile in tiles if tile is not None), default=1)
    sheet = Image.new("RGBA", (columns * side, -(-len(tiles) // columns) * side))
    for number, tile in enumerate(tiles):
        if tile is not None:
            down, across = divmod(number, columns)
            place = across * side + (side - tile.width) // 2, down * side + (side - tile.height) // 2
            sheet.paste(tile, place)
    return as_webp(sheet)


def _tile(data: bytes, side: int) -> Image.Image:
    try:
        return thumbnail(data, side)
    except UNREADABLE:
        return Image.new("RGBA", (side, side), GREY)


def as_webp(picture: Image.Image) -> bytes:
    """A picture as WebP."""
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=QUALITY, method=4)
    return buffer.getvalue()


@contextmanager
def opened_picture(data: bytes, mode: str = "RGB", side: int | None = None) -> Iterator[Image.Image]:
    """Open a picture from anywhere; one of too many pixels is refused by its header, before it is decoded.

    With a `side` a JPEG is decoded at half, a quarter or an eighth of its size, but not below that side.
    """
    with _opened(data) as opened:
        size = opened.size
        if size[0] * size[1] > MOST_READ:
            raise LargePictureError(size)
        if side and not opened.info.get("progressive"):  # a progressive one is held whole all the same
            opened.draft(mode, (side, side))
        if opened.width * opened.height > MOST_PIXELS:
            raise LargePictureError(size)
        yield opened


def _opened(data: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data))
    except Image.DecompressionBombError:
        raise LargePictureError from None


def thumbnail(data: bytes, side: int) -> Image.Image:
    """A picture within a square of `side` pixels, turned as its camera says; a smaller one stays as it is."""
    with opened_picture(data, "RGB", side) as opened:
        opened.load()
        # A large picture is made smaller before it is converted: each copy of it takes 4 bytes a pixel.
        is_plain = opened.mode in ("L", "LA", "RGB", "RGBA") and "transparency" not in opened.info
        picture = opened if is_plain else opened.convert("RGBA")
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        return ImageOps.exif_transpose(picture).convert("RGBA")


def for_browser(data: bytes, most: int = LARGE, side: int = WHOLE) -> tuple[bytes, str]:
    """A picture as a browser may show it, and its type; above `most` bytes one within `side` pixels."""
    try:
        with _opened(data) as opened:
            kind = TYPES.get(opened.format or "")
        if kind and len(data) <= most:
            return data, kind
        return as_webp(thumbnail(data, side)), "image/webp"
    except LargePictureError:
        raise
    except UNREADABLE as error:
        raise InputError("this is not a picture that can be shown") from error
