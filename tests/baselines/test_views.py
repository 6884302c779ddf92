"""Views of pictures: as Pillow makes them, drawn from the generator alone, nothing at strength 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from shiftdata.baselines import views
from shiftdata.baselines.views import OPERATIONS, cutout, strong, weak


def pictures(count: int = 6, side: int = 24) -> np.ndarray:
    generator = np.random.default_rng(3)
    smooth = generator.integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(one).resize((side, side), 3)) for one in smooth])


def as_tensor(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x.copy()).permute(0, 3, 1, 2).float() / 255


def as_pixels(x: torch.Tensor) -> np.ndarray:
    return (x.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


ORACLES = {
    "brightness": lambda one, s: ImageEnhance.Brightness(one).enhance(1 + 0.9 * s),
    "colour": lambda one, s: ImageEnhance.Color(one).enhance(1 + 0.9 * s),
    "contrast": lambda one, s: ImageEnhance.Contrast(one).enhance(1 + 0.9 * s),
    "sharpness": lambda one, s: ImageEnhance.Sharpness(one).enhance(1 + 0.9 * s),
    "autocontrast": lambda one, s: ImageOps.autocontrast(one),
    "equalised": lambda one, s: ImageOps.equalize(one),
    "posterised": lambda one, s: ImageOps.posterize(one, 8 - round(4 * abs(s))),
    "solarised": lambda one, s: ImageOps.solarize(one, round(255 * (1 - abs(s)))),
}


@pytest.mark.parametrize("name", sorted(ORACLES))
@pytest.mark.parametrize("strength", [-0.8, 0.4])
def test_colours_are_those_of_pillow(name, strength):
    x = pictures()
    made = as_pixels(OPERATIONS[name](as_tensor(x), torch.full((len(x),), strength)))
    for mine, one in zip(made, x, strict=True):
        theirs = np.asarray(ORACLES[name](Image.fromarray(one), strength))
        apart = np.abs(mine.astype(int) - theirs)
        if name == "solarised":  # one value lies on the threshold
            assert (apart > 2).mean() < 0.01
        else:
            assert apart.max() <= 3


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {"autocontrast", "equalised"}))
def test_strength_zero_changes_nothing(name):
    x = pictures()
    assert (as_pixels(OPERATIONS[name](as_tensor(x), torch.zeros(len(x)))) == x).all()


@pytest.mark.parametrize(("name", "axis"), [("translated", 2), ("translated down", 1)])
def test_translation_is_along_its_axis(name, axis):
    x = pictures(side=20)
    made = as_pixels(OPERATIONS[name](as_tensor(x), torch.full((len(x),), 0.5)))  # by .15 of 20 pixels
    moved = np.take(x, np.clip(np.arange(20) + 3, 0, 19), axis=axis)
    assert np.abs(made.astype(int) - moved).max() <= 1


@pytest.mark.parametrize("strength", [-0.8, 0.5])
def test_a_shear_moves_each_line_by_its_height(strength):
    x = pictures(side=20)
    made = as_pixels(OPERATIONS["sheared"](as_tensor(x), torch.full((len(x),), strength)))
    places = np.arange(20)
    for line in range(20):
        read = np.clip(places + 0.3 * strength * (line - 9.5), 0, 19)
        low = np.minimum(read.astype(int), 18)
        share = (read - low)[:, None]
        expected = x[:, line, low] * (1 - share) + x[:, line, low + 1] * share
        assert np.abs(made[:, line] - expected).max() <= 1


@pytest.mark.parametrize("strength", [-1.0, 0.5])
def test_a_rotation_is_by_up_to_30_degrees(strength):
    x = pictures(side=33)
    made = as_pixels(OPERATIONS["rotated"](as_tensor(x), torch.full((len(x),), strength)))
    middle = slice(10, 23)
    for mine, one in zip(made, x, strict=True):
        theirs = Image.fromarray(one).rotate(30 * strength, Image.Resampling.BILINEAR)
        assert np.abs(mine.astype(int) - np.asarray(theirs))[middle, middle].max() <= 2


def test_a_value_on_the_threshold_is_inverted():
    x = torch.tensor([0.0, 0.5, 0.75, 1.0]).repeat(3, 1)[None, :, None]
    made = OPERATIONS["solarised"](x, torch.tensor([0.25]))
    assert made[0, 0, 0].tolist() == [0, 0.5, 0.25, 0]


def test_values_are_spread_exactly_as_by_pillow():
    x = pictures(side=40)  # 1,600 values are spread in steps of 6
    made = as_pixels(OPERATIONS["equalised"](as_tensor(x), torch.zeros(len(x))))
    for mine, one in zip(made, x, strict=True):
        assert (mine == np.asarray(ImageOps.equalize(Image.fromarray(one)))).all()


def test_a_rotation_undoes_itself_near_the_centre():
    x = as_tensor(pictures(side=32))
    turned = OPERATIONS["rotated"](x, torch.full((len(x),), 0.7))
    back = OPERATIONS["rotated"](turned, torch.full((len(x),), -0.7))
    middle = slice(10, 22)
    assert (turned - x)[:, :, middle, middle].abs().mean() > 4 * (back - x)[:, :, middle, middle].abs().mean()


def test_each_picture_has_draws_of_its_own_and_the_generator_decides():
    x = np.repeat(pictures(1), 40, axis=0)
    first = strong(x, np.random.default_rng(1))
    assert (first == strong(x, np.random.default_rng(1))).all()
    assert len({one.tobytes() for one in first}) > 30
    assert first.dtype == np.uint8
    assert first.shape == x.shape
    assert not (first == strong(x, np.random.default_rng(2))).all()


def test_strengths_go_in_either_direction(monkeypatch):
    seen = []

    def kept(x, strength):
        seen.append(strength)
        return x

    monkeypatch.setattr(views, "OPERATIONS", {"kept": kept})
    strong(np.repeat(pictures(1, 8), 400, axis=0), np.random.default_rng(0))
    assert [len(one) for one in seen] == [400, 400]
    drawn = torch.cat(seen)
    assert drawn.abs().max() <= 1
    assert drawn.mean().item() == pytest.approx(0, abs=5 * 3**-0.5 / 800**0.5)
    assert drawn.std().item() == pytest.approx(3**-0.5, abs=0.05)


def test_weak_views_move_and_mirror():
    x = pictures()
    assert (weak(x, np.random.default_rng(0), shift=0) == x).all()
    mirrored = weak(x, np.random.default_rng(0), shift=0, flip=True)
    same = (mirrored == x).all(axis=(1, 2, 3))
    assert 0 < same.sum() < len(x)
    assert (mirrored[~same] == x[~same][:, :, ::-1]).all()
    many = np.repeat(x[:1], 1000, axis=0)
    mirrored = (weak(many, np.random.default_rng(0), shift=0, flip=True) != many).any(axis=(1, 2, 3))
    assert mirrored.mean() == pytest.approx(0.5, abs=5 * 0.5 / 1000**0.5)


def test_cutout_covers_up_to_a_quarter():
    x = torch.zeros(400, 3, 20, 20)
    share = (cutout(x, np.random.default_rng(0)) == 0.5).float().mean((1, 2, 3))
    assert share.max() <= 0.25
    assert 0.05 < share.mean() < 0.1  # a twelfth, less what lies outside


def test_no_picture_is_no_view():
    assert strong(pictures()[:0], np.random.default_rng(0)).shape == (0, 24, 24, 3)
