"""Pictures for pages: small ones, one file of many, and the original as a browser may show it."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from shiftdata.errors import InputError, IntegrityError
from shiftdata.untrusted.pictures import UndecodableError, open_picture, thumbnail

QUALITY = 82
#: Formats that a browser shows as they are; others are encoded as WebP.
TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}
#: A picture of more bytes is shown as one of that many pixels a side.
LARGE, WHOLE = 2_000_000, 1024
#: The square for a picture that cannot be decoded.
GREY = (128, 128, 128, 96)


def sprite(pictures: Sequence[bytes | None], side: int, columns: int) -> bytes:
    """Return pictures in rows of `columns` as WebP, each in a square of `side` pixels at most.

    The rest of a square, and that of None, is transparent; a picture that cannot be decoded is grey.
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
    except (InputError, IntegrityError):
        return Image.new("RGBA", (side, side), GREY)


def as_webp(picture: Image.Image) -> bytes:
    """Encode a picture as WebP."""
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=QUALITY, method=4)
    return buffer.getvalue()


def for_browser(data: bytes, most: int = LARGE, side: int = WHOLE) -> tuple[bytes, str]:
    """Return a picture as a browser may show it, and its type; above `most` bytes within `side` pixels."""
    try:
        with open_picture(data) as opened:
            kind = TYPES.get(opened.format or "")
        if kind and len(data) <= most:
            return data, kind
        return as_webp(thumbnail(data, side)), "image/webp"
    except UndecodableError as error:
        raise InputError("this is not a picture that can be shown") from error
