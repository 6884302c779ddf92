"""Small pictures of pages: turned and transparent as the whole one; what cannot be shown."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from builders.shifts.styles.bank import on_white
from shiftdata.data.loading.sprites import GREY, for_browser, sprite
from shiftdata.errors import InputError
from shiftdata.untrusted.pictures import thumbnail


def encoded(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def patterns(mode: str, size: tuple[int, int] = (90, 60)) -> Image.Image:
    red, green = Image.linear_gradient("L").resize(size), Image.radial_gradient("L").resize(size)
    return Image.merge("RGB", [red, green, red.rotate(180)]).convert(mode)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_a_thumbnail_is_that_of_the_whole_picture(mode):
    picture = patterns("L").convert("I;16") if mode == "I;16" else patterns(mode)
    if mode in ("LA", "RGBA"):
        picture.putalpha(patterns("L").rotate(90))
    kind = "TIFF" if mode == "CMYK" else "PNG"
    exif = Image.Exif()
    exif[0x0112] = 6  # turned to the right
    whole = ImageOps.exif_transpose(Image.open(io.BytesIO(data := encoded(picture, kind, exif=exif))))
    whole = whole.convert("RGBA")
    whole.thumbnail((24, 24), Image.Resampling.LANCZOS)
    small = thumbnail(data, 24)
    assert (small.mode, small.size) == ("RGBA", (16, 24))
    seen, wanted = (np.asarray(on_white(picture), float) for picture in (small, whole))
    np.testing.assert_allclose(seen, wanted, atol=8 if mode == "1" else 3)  # dots differ by the turn


def test_a_colour_that_stands_for_transparent_stays_so():
    picture = Image.new("RGB", (64, 64), "red")
    picture.paste("blue", (0, 0, 32, 64))
    small = np.asarray(thumbnail(encoded(picture, transparency=(255, 0, 0)), 16))
    assert small[:, :6, 3].min() > 250
    assert small[:, 10:, 3].max() < 5


@pytest.mark.parametrize(
    ("kind", "size", "options", "is_shown"),
    [
        ("JPEG", (6_000, 4_000), {}, True),
        ("PNG", (6_000, 4_000), {"compress_level": 1}, True),
        ("JPEG", (8_000, 7_000), {}, True),
        ("PNG", (8_000, 7_000), {"compress_level": 1}, False),
    ],
)
def test_photographs_are_shown_and_larger_pictures_are_not(kind, size, options, is_shown):
    data = encoded(Image.new("L", size, 128), kind, **options)
    if is_shown:
        assert thumbnail(data, 64).size[0] == 64
    else:
        with pytest.raises(InputError, match=rf"{size[0]:,} x {size[1]:,} pixels is not shown"):
            thumbnail(data, 64)
    tile = np.asarray(Image.open(io.BytesIO(sprite([data], 64, 1))).convert("RGBA"))
    assert bool(tile[32, 32, 3] == 255) is is_shown  # what cannot be shown is a pale square


def test_what_is_no_picture_is_a_grey_square_among_the_others():
    data = encoded(Image.new("RGB", (40, 40), "red"))
    tiles = np.asarray(Image.open(io.BytesIO(sprite([b"a text", data, data[:50]], 40, 3))).convert("RGBA"))
    assert tiles[20, [20, 60, 100], 3].tolist() == [GREY[3], 255, GREY[3]]


def test_what_a_browser_cannot_show_is_encoded_again_or_refused():
    data = encoded(patterns("RGB"))
    assert for_browser(data) == (data, "image/png")
    for small, kind in (
        for_browser(data, most=10, side=16),
        for_browser(encoded(patterns("RGB"), "TIFF"), side=16),
    ):
        assert kind == "image/webp"
        assert Image.open(io.BytesIO(small)).size == (16, 11)
    with pytest.raises(InputError, match="not a picture"):
        for_browser(b"<svg><script>alert(1)</script></svg>")
