"""Many small pictures as one file, for pages that cannot ask for each."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress

from PIL import Image, ImageOps

from shiftdata.errors import InputError

QUALITY = 82
#: What a browser may take a picture for; whatever else it says of itself is drawn anew or not shown.
TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
#: A picture of more bytes is shown as a smaller one, of so many pixels a side.
LARGE, WHOLE = 2_000_000, 1024
#: Pixels of a picture that is made smaller: more of them would fill the memory.
MOST_PIXELS = 60_000_000


def sprite(pictures: Sequence[bytes | None], side: int, columns: int) -> bytes:
    """Pictures in rows of some columns as WebP, each in a square of `side` pixels at most.

    What is left of a square, and that of None, is transparent.
    """
    tiles = [None if data is None else thumbnail(data, side) for data in pictures]
    side = max((max(tile.size) for tile in tiles if tile is not None), default=1)
    sheet = Image.new("RGBA", (columns * side, -(-len(tiles) // columns) * side))
    for number, tile in enumerate(tiles):
        if tile is not None:
            down, across = divmod(number, columns)
            place = across * side + (side - tile.width) // 2, down * side + (side - tile.height) // 2
            sheet.paste(tile, place)
    return as_webp(sheet)


def as_webp(picture: Image.Image) -> bytes:
    """A picture as WebP."""
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=QUALITY, method=4)
    return buffer.getvalue()


def thumbnail(data: bytes, side: int) -> Image.Image:
    """A picture within a square of `side` pixels, turned as its camera says; a smaller one stays as it is."""
    with Image.open(io.BytesIO(data)) as opened:
        if opened.width * opened.height > MOST_PIXELS:
            raise InputError(f"a picture of {opened.width:,} x {opened.height:,} pixels is not shown")
        opened.draft("RGB", (side, side))  # a large JPEG is decoded at an eighth, a quarter or half
        picture = ImageOps.exif_transpose(opened).convert("RGBA")
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    return picture


def for_browser(data: bytes, most: int = LARGE, side: int = WHOLE) -> tuple[bytes, str]:
    """A picture as a browser may show it, and its type; above `most` bytes one within `side` pixels."""
    with suppress(OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        with Image.open(io.BytesIO(data)) as opened:
            kind = TYPES.get(opened.format or "")
        if kind and len(data) <= most:
            return data, kind
        return as_webp(thumbnail(data, side)), "image/webp"
    raise InputError("this is not a picture that can be shown")
