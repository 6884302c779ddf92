from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import spearmanr

from builders.shifts import weather
from builders.shifts.weather import FIGURES, MAX_SCALE, WEATHERS, fall, ground_plane, render
from shiftdata.errors import InputError, NotFoundError
from shiftdata.stable import content_hash, rng
from tests.pictures import emoji, floats, photographs, unlike
from tests.properties import share

KEY = (0, "test", "picture")
SCALES = np.linspace(0, MAX_SCALE, 6)
PARTICLES = [name for name in WEATHERS if FIGURES[name].layers]


def pictures(side: int = 64) -> tuple[Image.Image, ...]:
    return photographs(side) + emoji(side)


@pytest.mark.parametrize("name", WEATHERS)
def test_scale_0_is_the_untouched_picture_and_no_alias_of_it(name):
    picture = pictures()[0]
    made = render(name, picture, 0, key=KEY)
    assert made.tobytes() == picture.tobytes()
    made.putpixel((0, 0), (1, 2, 3))
    assert picture.getpixel((0, 0)) != (1, 2, 3)


@pytest.mark.parametrize("name", WEATHERS)
def test_it_begins_without_a_jump(name):
    picture = pictures()[3]
    assert np.abs(floats(render(name, picture, 0.01, key=KEY)) - floats(picture)).mean() < 1


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


@pytest.mark.parametrize("name", PARTICLES)
@share(0.4)
@given(scales=st.tuples(*2 * [st.floats(0, MAX_SCALE)]), width=st.integers(16, 80), seed=st.integers(0, 9))
def test_particles_stay_and_others_join_them(name, scales, width, seed):
    """White particles before black: a pixel that is covered stays covered as the scale grows."""
    low, high = sorted(scales)
    depth = np.full((48, width), 9, dtype=np.float32)
    black = np.zeros((48, width, 3), dtype=np.float32)
    figures = FIGURES[name]
    clear = type(figures.medium)(air=(255, 255, 255), extinction=(9e9, 9e9, 9e9))
    for layer in figures.layers:
        thin, thick = (
            fall(layer, clear, black, scale, depth, 1.2, rng(seed, name, "layer")) for scale in (low, high)
        )
        assert (thick - thin).min() >= -1 / 255
        assert 0 <= thin.min() <= thick.max() <= 1


def test_far_things_vanish_first(monkeypatch):
    picture = Image.new("RGB", (64, 64), (200, 30, 30))
    depth = np.full((64, 64), 0.5, dtype=np.float32)
    depth[:, 32:] = 2.0
    monkeypatch.setattr(weather, "ground_plane", lambda size: depth)
    for name in ("fog", "smog"):
        change = np.abs(floats(render(name, picture, 1.0, key=KEY)) - floats(picture)).mean(2)
        assert change[:, 34:].min() > change[:, :30].max()
    top, bottom = ground_plane((20, 50))[[0, -1], 0]
    assert (top, bottom) == pytest.approx((1.6, 0.7))


def test_what_is_nearer_than_a_flake_hides_it(monkeypatch):
    picture = Image.new("RGB", (96, 96), (60, 60, 60))
    monkeypatch.setattr(weather, "ground_plane", lambda size: np.zeros((96, 96), dtype=np.float32))
    near = floats(render("snow", picture, 2.5, key=KEY))
    assert np.ptp(near[:70]) == 0


def test_fog_takes_all_colours_alike_and_sand_takes_blue_first():
    white = Image.new("RGB", (32, 32), (255, 255, 255))
    loss = {name: 255 - floats(render(name, white, 2, key=KEY)).mean((0, 1)) for name in WEATHERS}
    assert np.ptp(loss["fog"]) < 10
    for name in ("smog", "dust", "sandstorm"):
        red, green, blue = loss[name]
        assert red + 5 < green < blue - 5


def test_snow_lies_on_what_faces_up():
    pixels = np.full((128, 128, 3), 120, dtype=np.uint8)
    pixels[50:90, 30:98] = (150, 40, 40)
    made = floats(render("snow", Image.fromarray(pixels), 1.5, key=KEY))[:, 34:94].mean((1, 2))
    assert made[51:53].mean() > made[70:86].mean() + 40  # on the box
    assert made[51:53].mean() > made[91:93].mean() + 30  # not under it
    assert made[125:].mean() > made[100:110].mean() + 20  # on the ground


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


def test_sizes_look_alike():
    large = pictures(256)[0]
    for name in WEATHERS:
        fine = render(name, large, 2, key=KEY).resize((64, 64), Image.Resampling.BOX)
        coarse = render(name, large.resize((64, 64), Image.Resampling.BOX), 2, key=KEY)
        assert np.abs(floats(fine) - floats(coarse)).mean() < 12, name


def test_keys_draw_differently():
    picture = pictures()[0]
    for name in WEATHERS:
        made = {render(name, picture, 2, key=("test", seed)).tobytes() for seed in range(3)}
        assert len(made) == 3


def test_processes_agree():
    code = (
        "from PIL import Image\n"
        "from builders.shifts.weather import *\n"
        "from shiftdata.stable import content_hash\n"
        "picture = Image.linear_gradient('L').resize((40, 56)).convert('RGB')\n"
        "made = [render(name, picture, 1.7, key=(3, 'a')).tobytes() for name in WEATHERS]\n"
        "digest = content_hash(*made)\n"
    )
    here: dict[str, str] = {}
    exec(code, here)
    there = subprocess.check_output([sys.executable, "-c", f"{code}print(digest)"], text=True)
    assert there.strip() == here["digest"] != content_hash()


@pytest.mark.parametrize("scale", [-0.1, 2.6, float("nan"), float("inf")])
def test_scales_that_do_not_exist_are_refused(scale):
    with pytest.raises(InputError, match=r"from 0 to 2\.5, got"):
        render("fog", pictures()[0], scale, key=KEY)


def test_other_bad_input_is_refused():
    picture = pictures()[0]
    with pytest.raises(NotFoundError, match="did you mean 'fog'"):
        render("frog", picture, 1, key=KEY)
    with pytest.raises(InputError, match="must be RGB, got RGBA"):
        render("fog", picture.convert("RGBA"), 1, key=KEY)
    with pytest.raises(InputError, match="at least 16 pixels"):
        render("fog", picture.resize((15, 64)), 1, key=KEY)
