from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import spearmanr

from builders.shifts.weather import MAX_SCALE, WEATHERS, render
from tests.pictures import floats, letters, photographs, unlike
from tests.properties import share

KEY = (0, "test", "picture")
SCALES = np.linspace(0, MAX_SCALE, 6)


def pictures(side: int = 64) -> tuple[Image.Image, ...]:
    return photographs(side) + letters(side)


@pytest.mark.parametrize("name", WEATHERS)
def test_scale_0_is_the_untouched_picture_and_no_alias_of_it(name):
    picture = pictures()[0]
    made = render(name, picture, 0, key=KEY)
    assert made.tobytes() == picture.tobytes()
    made.putpixel((0, 0), (1, 2, 3))
    assert picture.getpixel((0, 0)) != (1, 2, 3)


@pytest.mark.parametrize("name", WEATHERS)
def test_the_distance_to_the_untouched_picture_goes_with_the_scale(name):
    close = []
    for at, picture in enumerate(pictures()):
        steps = [render(name, picture, scale, key=("test", at)) for scale in SCALES]
        plain = [np.abs(floats(step) - floats(picture)).mean() for step in steps]
        shape = [unlike(picture, step) for step in steps]
        close.append([spearmanr(SCALES, distance).statistic >= 0.95 for distance in (plain, shape)])
    assert np.mean(close, axis=0).min() >= 0.95, np.mean(close, axis=0)


@pytest.mark.parametrize("name", WEATHERS)
def test_a_trajectory_keeps_its_draws(name):
    """The next scale of one key is nearer than another key."""
    picture = Image.new("RGB", (96, 96), (90, 90, 90))
    now = floats(render(name, picture, 1.5, key=KEY))
    later = floats(render(name, picture, 2.0, key=KEY))
    other = floats(render(name, picture, 2.0, key=(1, *KEY[1:])))

    def likeness(first, second):
        return np.corrcoef((first - first.mean((0, 1))).ravel(), (second - second.mean((0, 1))).ravel())[0, 1]

    assert likeness(now, later) > 0.8
    assert likeness(now, later) > likeness(now, other) + 0.1


@share(0.5)
@given(
    name=st.sampled_from(WEATHERS),
    size=st.tuples(*2 * [st.integers(16, 90)]),
    scale=st.floats(0.01, MAX_SCALE),
    grey=st.integers(0, 255),
)
def test_any_size_and_colour_gives_a_changed_picture_of_that_size_twice(name, size, scale, grey):
    picture = Image.new("RGB", size, (grey, grey, grey))
    first, second = (render(name, picture, scale, key=KEY) for _ in range(2))
    assert (first.size, first.mode) == (size, "RGB")
    assert first.tobytes() == second.tobytes()
    if scale > 0.5:
        assert first.tobytes() != picture.tobytes()


def test_keys_draw_differently():
    picture = pictures()[0]
    for name in WEATHERS:
        made = {render(name, picture, 2, key=("test", seed)).tobytes() for seed in range(3)}
        assert len(made) == 3
