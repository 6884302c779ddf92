from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from builders.shifts.styles import network


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def code():
    return network.code(noise(300, 260, seed=1))


def test_more_strength_is_further_from_the_picture(code):
    picture = noise(64, 64)
    own = np.asarray(network.stylize(picture, network.code(picture)), dtype=float)
    away = [
        np.abs(np.asarray(network.stylize(picture, code, s), dtype=float) - own).mean() for s in (0.2, 0.6, 1)
    ]
    assert away[0] < away[1] < away[2]


def test_a_second_session_paints_the_same_bytes(code):
    picture = noise(64, 48)
    again = network.stylize(picture, code)
    network._session.cache_clear()
    assert np.array_equal(np.asarray(network.stylize(picture, code)), np.asarray(again))


def test_the_style_changes_the_picture_and_keeps_its_shapes(code):
    # A stylized picture is far from its content in colour, and its edges lie where they lay.
    picture = Image.new("RGB", (96, 96), (240, 240, 240))
    picture.paste((30, 30, 160), (28, 28, 68, 68))
    made = np.asarray(network.stylize(picture, code).convert("L"), dtype=float)
    original = np.asarray(picture, dtype=float)
    assert np.abs(np.asarray(network.stylize(picture, code), dtype=float) - original).mean() > 20
    inside, outside = made[36:60, 36:60].mean(), made[4:20].mean()
    assert abs(inside - outside) > 15
