from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from builders.shifts.styles import network
from builders.shifts.stylizers import Arbitrary


@pytest.fixture(scope="module")
def code():
    coarse = np.random.default_rng(1).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return network.code(Image.fromarray(coarse).resize((300, 260), Image.Resampling.BICUBIC))


def test_a_second_session_paints_the_same_bytes_and_keeps_shapes(code):
    """A stylized picture is far from its content in colour, and its edges lie where they lay."""
    picture = Image.new("RGB", (96, 80), (240, 240, 240))
    picture.paste((30, 30, 160), (28, 28, 68, 68))
    (painted,) = Arbitrary().stylize(picture, [code], [1])
    network._session.cache_clear()
    assert Arbitrary().stylize(picture, [code], [1]) == [painted]
    assert np.abs(np.asarray(painted, float) - np.asarray(picture, float)).mean() > 20
    grey = np.asarray(painted.convert("L"), dtype=float)
    assert abs(grey[36:60, 36:60].mean() - grey[4:20].mean()) > 15
