"""Pixels are Pillow's, whichever decoder made them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shiftdata.data.loading.batches import decode as module
from shiftdata.data.loading.batches.decode import decode
from shiftdata.errors import IntegrityError
from shiftdata.stable import rng

SIDES = st.integers(9, 300)


def picture(height: int, width: int, mode: str = "RGB") -> Image.Image:
    coarse = rng("test", height, width).integers(0, 256, (6, 6, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def by_pillow(data: bytes, **options: object) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_turbo", lambda: None)
        return decode(data, **options)


@given(
    SIDES,
    SIDES,
    st.integers(30, 95),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
    st.sampled_from(["RGB", "L"]),
)
def test_jpeg_equals_pillow(height, width, quality, subsampling, progressive, mode):
    data = encoded(
        picture(height, width, mode),
        "JPEG",
        quality=quality,
        subsampling=subsampling,
        progressive=progressive,
    )
    plain = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(decode(data), plain)
    out = np.empty_like(plain)
    assert decode(data, out=out) is by_pillow(data, out=out) is out
    np.testing.assert_array_equal(decode(data, out=out), plain)
    assert decode(data, out=out[1:]).flags.writeable


@given(SIDES, SIDES, SIDES, SIDES)
def test_resizing_on_decode_does_not_depend_on_the_decoder(height, width, to_height, to_width):
    data = encoded(picture(height, width), "JPEG")
    out = np.empty((to_height, to_width, 3), np.uint8)
    small = decode(data, size=(to_height, to_width), out=out)
    assert small.shape == out.shape
    np.testing.assert_array_equal(small, by_pillow(data, size=(to_height, to_width)))


@pytest.mark.parametrize(
    ("mode", "kind", "options"),
    [("RGB", "PNG", {}), ("RGBA", "PNG", {}), ("P", "PNG", {}), ("RGB", "WEBP", {"lossless": True})],
)
def test_png_and_webp(mode, kind, options):
    image = picture(40, 30, mode)
    np.testing.assert_array_equal(decode(encoded(image, kind, **options)), np.asarray(image.convert("RGB")))
    assert decode(encoded(image, kind, **options), size=(10, 20)).shape == (10, 20, 3)


def test_a_jpeg_of_four_inks_is_read_by_pillow():
    data = encoded(picture(20, 20, "CMYK"), "JPEG")
    plain = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    np.testing.assert_array_equal(decode(data, out=np.zeros((20, 20, 3), np.uint8)), plain)


def test_the_size_is_that_of_the_frame_header():
    """Not of a picture in the picture; bytes that fill up before a marker are allowed."""
    small = encoded(picture(16, 20), "JPEG")
    data = encoded(picture(40, 50), "JPEG", exif=b"Exif\0\0" + small, comment=small)
    filled = data[:2] + b"\xff\xff" + data[2:]
    for one in (data, filled):
        assert module._frame(one) == (40, 50, 3)
        np.testing.assert_array_equal(decode(one), by_pillow(one))
    high = data.replace(bytes([0, 40, 0, 50]), bytes([0, 0, 0, 50]))  # its height would come later
    with pytest.raises(IntegrityError, match="cannot be decoded"):
        decode(high, out=np.zeros((40, 50, 3), np.uint8))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:3]]
)
def test_what_is_damaged_is_an_error(kind, damage):
    data = damage(encoded(picture(64, 64), kind))
    for way in (decode, by_pillow):
        with pytest.raises(IntegrityError, match="cannot be decoded"):
            way(data)
