from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from PIL import Image

from shiftdata.errors import IntegrityError, LimitError
from shiftdata.untrusted.limits import raised
from shiftdata.untrusted.pictures import held, open_picture
from tests.bombs import black_png, growth


@pytest.mark.parametrize(("width", "height"), [(8_001, 8_000), (60_000, 30_000)])
def test_a_picture_of_too_many_pixels_is_refused_by_its_header(width, height):
    data = black_png(width, height)
    assert len(data) < 1 << 20
    with pytest.raises(LimitError, match=rf"^x.png has {width:,} x {height:,} pixels: at most 64,000,000"):
        open_picture(data, "x.png").__enter__()
    with raised(picture_pixels=2_000_000_000, picture_budget=2_000_000_000), open_picture(data) as picture:
        assert picture.size == (width, height)


def test_an_honest_photo_is_decoded(tmp_path):
    path = tmp_path / "x.jpg"
    Image.fromarray(np.full((4_000, 6_000, 3), 7, np.uint8)).save(path)
    with open_picture(path) as picture:
        assert picture.convert("RGB").getpixel((5_999, 3_999)) == (7, 7, 7)


def test_threads_decode_within_the_budget():
    before = """
from pathlib import Path
from threading import Thread
from shiftdata.untrusted.pictures import open_picture
from tests.bombs import black_png
data = black_png(7_700, 7_700)
def decode():
    with open_picture(data) as picture:
        picture.convert("RGB")
"""
    code = """
threads = [Thread(target=decode) for _ in range(5)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    bytes_more, _ = growth(before, code)
    assert bytes_more < 600 << 20


def test_a_thread_waits_for_pixels_but_never_for_itself():
    order = []

    def wait() -> None:
        with held(7_000, 7_000):
            order.append("second")

    with raised(picture_budget=60_000_000), held(7_000, 7_000):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.1)
        with held(7_000, 7_000):  # it holds pixels already
            order.append("first")
    thread.join()
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"\x89PNG\r\n\x1a\nx",
        b"\xff\xd8\xff\xe0",
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
        black_png(9, 9)[:-20],
    ],
)
def test_what_is_no_picture_is_an_error_of_ours(data):
    with pytest.raises(IntegrityError, match=r"^x cannot be decoded \("), open_picture(data, "x") as picture:
        picture.load()


def test_only_the_formats_that_are_asked_for_are_read():
    buffer = io.BytesIO()
    Image.new("L", (3, 3)).save(buffer, "GIF")
    with pytest.raises(IntegrityError, match="it is none of JPEG, PNG"):
        open_picture(buffer.getvalue(), formats=("JPEG", "PNG")).__enter__()
    with open_picture(buffer.getvalue()) as picture:
        assert picture.format == "GIF"
