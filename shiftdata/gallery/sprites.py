"""Many small pictures as one file, for pages that cannot ask for each."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image, ImageOps

#: WebP's side at most, in pixels.
MOST_SIDE = 16_383
QUALITY = 82


def sprite(pictures: Sequence[bytes], side: int, columns: int) -> bytes:
    """Pictures in rows of some columns, each in a square of `side` pixels, as WebP.

    A picture that is smaller than its square is enlarged by whole steps where it can be, so that pixel art
    stays sharp; what is left of the square is transparent.
    """
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGBA", (columns * side, rows * side))
    for number, data in enumerate(pictures):
        tile = thumbnail(data, side)
        down, across = divmod(number, columns)
        place = across * side + (side - tile.width) // 2, down * side + (side - tile.height) // 2
        sheet.paste(tile, place)
    buffer = io.BytesIO()
    sheet.save(buffer, "WEBP", quality=QUALITY, method=4)
    return buffer.getvalue()


def thumbnail(data: bytes, side: int) -> Image.Image:
    """A picture within a square of `side` pixels, turned as its camera says."""
    with Image.open(io.BytesIO(data)) as opened:
        opened.draft("RGB", (side, side))  # a large JPEG is decoded at an eighth, a quarter or half
        picture = ImageOps.exif_transpose(opened).convert("RGBA")
    if max(picture.size) <= side // 2:
        times = side // max(picture.size)
        size = picture.width * times, picture.height * times
        return picture.resize(size, Image.Resampling.NEAREST)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    return picture
