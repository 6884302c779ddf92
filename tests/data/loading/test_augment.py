"""Augmentations: what they do to a picture, that the generator decides, and nothing at strength 0."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from PIL import Image

from shiftdata.data.loading import augment
from shiftdata.data.loading.augment import (
    OPERATIONS,
    ContrastiveView,
    DomainBed,
    Shift,
    Strong,
    Views,
    cutout,
    random_crop,
)
from shiftdata.data.loading.batches.examples import Draws
from shiftdata.errors import InputError

ALL = (Shift(), Shift(2, flip=True), Strong(Shift(1), 3), DomainBed(16), Views(Shift(), Strong(), Strong()))


def picture(side: int = 24, seed: int = 3) -> np.ndarray:
    """A smooth picture: its neighbouring pixels are alike."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return np.array(Image.fromarray(small).resize((side, side), 3))


def operated(name: str, x: np.ndarray, strength: float) -> np.ndarray:
    return np.asarray(OPERATIONS[name](Image.fromarray(x), strength))


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_the_generator_alone_decides(transform):
    x, before = picture(), picture()
    again = pickle.loads(pickle.dumps(transform))
    views = [transform(x, np.random.default_rng(seed)) for seed in range(40)]
    assert all((again(x, np.random.default_rng(seed)) == view).all() for seed, view in enumerate(views))
    assert len({view.tobytes() for view in views}) > 20
    assert {view.dtype for view in views} == {np.dtype(np.uint8)}
    assert (x == before).all()
    assert eval(repr(transform), vars(augment)) == transform  # it is a record


@pytest.mark.parametrize("size", [(5, 4), (1, 9), (24, 24)])
@pytest.mark.parametrize("most", [0, 1, 7])
def test_a_shift_repeats_the_border_and_is_uniform(size, most):
    from scipy import stats

    x = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    height, width = size
    padded = np.pad(x, ((most, most), (most, most), (0, 0)), "edge")
    places = range(2 * most + 1)
    expected = {padded[a : a + height, b : b + width].tobytes() for a in places for b in places}
    draws = [Shift(most)(x, np.random.default_rng(seed)).tobytes() for seed in range(2500)]
    assert set(draws) <= expected
    if most and len(expected) == len(places) ** 2:  # no two moves look alike
        assert stats.chisquare([draws.count(view) for view in expected]).pvalue > 1e-4


def test_flips_mirror_half_of_the_views():
    from scipy import stats

    x = picture()
    views = [Shift(0, flip=True)(x, np.random.default_rng(seed)) for seed in range(1000)]
    mirrored = [not (view == x).all() for view in views]
    assert all(
        (view == (x[:, ::-1] if mirror else x)).all() for view, mirror in zip(views, mirrored, strict=True)
    )
    assert stats.binomtest(sum(mirrored), 1000).pvalue > 1e-4


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {"autocontrast", "equalised"}))
@pytest.mark.parametrize("size", [(24, 24), (17, 30)])
def test_strength_zero_changes_nothing(name, size):
    x = np.array(Image.fromarray(picture()).resize(size))
    assert (operated(name, x, 0.0) == x).all()


@pytest.mark.parametrize("name", sorted(OPERATIONS))
@pytest.mark.parametrize("strength", [-1.0, 1.0])
def test_a_picture_of_one_colour_stays_one(name, strength):
    view = operated(name, np.full((9, 14, 3), 200, np.uint8), strength)
    assert (view == view[0, 0]).all()  # the border is repeated, so nothing black comes in


@pytest.mark.parametrize("strength", [-0.8, 0.4])
def test_posterised_and_solarised_by_their_formulas(strength):
    x = picture().astype(int)
    step = 2 ** round(4 * abs(strength))
    assert (operated("posterised", picture(), strength) == x - x % step).all()
    bright = x / 255 >= 1 - abs(strength)
    assert (operated("solarised", picture(), strength) == np.where(bright, 255 - x, x)).all()


@pytest.mark.parametrize(("name", "axis"), [("translated", 1), ("translated down", 0)])
def test_a_translation_is_along_its_axis(name, axis):
    x = picture(20)
    moved = np.take(x, np.clip(np.arange(20) + 3, 0, 19), axis=axis)  # by .15 of 20 pixels
    assert np.abs(operated(name, x, 0.5).astype(int) - moved).max() <= 1


@pytest.mark.parametrize(("name", "turn"), [("sheared", False), ("sheared down", True)])
@pytest.mark.parametrize("strength", [-0.8, 0.5])
def test_a_shear_moves_each_line_by_its_height(name, turn, strength):
    x = picture(20)
    view = operated(name, x.transpose(1, 0, 2) if turn else x, strength).astype(int)
    view = view.transpose(1, 0, 2) if turn else view
    for line in range(20):
        place = np.clip(np.arange(20) + 0.3 * strength * (line - 9.5), 0, 19)
        low = np.minimum(place.astype(int), 18)
        share = (place - low)[:, None]
        assert (
            np.abs(view[line] - (x[line, low] * (1 - share) + x[line, low + 1] * share)).max() < 1.01
        )  # it cuts


@pytest.mark.parametrize("strength", [-1.0, 0.5])
@pytest.mark.parametrize("size", [(33, 33), (25, 41)])
def test_a_rotation_is_by_up_to_30_degrees(strength, size):
    x = np.array(Image.fromarray(picture(33)).resize(size))
    expected = np.asarray(Image.fromarray(x).rotate(30 * strength, Image.Resampling.BILINEAR))
    middle = tuple(slice(side // 2 - 6, side // 2 + 7) for side in x.shape[:2])
    assert np.abs(operated("rotated", x, strength).astype(int) - expected)[middle].max() <= 2


def test_strong_views_draw_every_operation_and_strengths_of_either_sign(monkeypatch):
    from scipy import stats

    drawn = []
    spies = {name: lambda x, s, name=name: drawn.append((name, s)) or x for name in OPERATIONS}
    monkeypatch.setattr(augment, "OPERATIONS", spies)
    for seed in range(1500):
        Strong(Shift(0), 2)(picture(8), np.random.default_rng(seed))
    names, strengths = zip(*drawn, strict=True)
    assert len(names) == 3000
    assert stats.chisquare([names.count(name) for name in OPERATIONS]).pvalue > 1e-4
    assert stats.kstest(strengths, stats.uniform(-1, 2).cdf).pvalue > 1e-4


def test_cutout_covers_up_to_a_quarter():
    generator = np.random.default_rng(0)
    covered = (
        np.array([cutout(np.zeros((20, 20, 3), np.uint8), generator)[:, :, 0] for _ in range(400)]) == 128
    )
    assert covered.mean((1, 2)).max() <= 0.25
    assert 0.05 < covered.mean() < 0.1  # a twelfth, less what lies outside
    for mask in covered[covered.any((1, 2))]:
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        assert mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()


def test_crops_are_of_the_area_and_ratio_that_domainbed_draws():
    from scipy import stats

    generator, height, width = np.random.default_rng(0), 400, 400
    crops = np.array([random_crop(height, width, generator) for _ in range(4000)])
    area, ratio = crops[:, 2] * crops[:, 3] / (height * width), crops[:, 3] / crops[:, 2]
    assert area.min() > 0.695
    assert np.log(ratio).mean() == pytest.approx(0, abs=0.01)
    # The areas that fit for a ratio are those up to min(ratio, 1 / ratio).
    most = np.minimum(ratio, 1 / ratio)
    assert stats.kstest((area - 0.7) / (most - 0.7), "uniform").statistic < 0.03
    for start, free in ((crops[:, 0], height - crops[:, 2]), (crops[:, 1], width - crops[:, 3])):
        assert (start <= free).all()
        wide = free > 40
        assert stats.kstest((start + 0.5)[wide] / (free[wide] + 1), "uniform").statistic < 0.04


def test_a_long_picture_is_cropped_in_its_middle():
    assert random_crop(10, 100, np.random.default_rng(0)) == (0, 43, 10, 13)
    assert random_crop(100, 10, np.random.default_rng(0)) == (43, 0, 13, 10)


def test_domainbed_mirrors_half_and_makes_a_tenth_grey():
    from scipy import stats

    x = np.zeros((12, 12, 3), np.uint8)
    x[:, :6, 0] = x[:, 6:, 1] = 150
    views = [DomainBed(12)(x, np.random.default_rng(seed)) for seed in range(1500)]
    grey = [bool((np.ptp(view, axis=2) == 0).all()) for view in views]
    assert stats.binomtest(sum(grey), 1500, 0.1).pvalue > 1e-4
    # Red is darker than green, whatever the hue: it is turned by at most .3 for both.
    lightness = np.array([np.asarray(Image.fromarray(view).convert("L"), float) for view in views])
    first = lightness[:, :, :3].mean((1, 2)) < lightness[:, :, 9:].mean((1, 2))
    assert 0 < first.mean() < 1


@pytest.mark.parametrize("turns", [-0.3, 0.0, 0.21])
def test_hues_are_turned(turns):
    x = picture()
    hsv = np.array(Image.fromarray(x).convert("HSV"))
    hsv[..., 0] += np.int32(turns * 255).astype(np.uint8)
    view = augment.hue_turned(Image.fromarray(x), turns)
    expected = Image.merge("HSV", [Image.fromarray(hsv[..., channel].copy()) for channel in range(3)])
    assert (np.asarray(view) == np.asarray(expected.convert("RGB"))).all()


def test_views_are_stacked():
    views = Views(Shift(0), Shift(0), Strong(Shift(0), 0))(picture(), np.random.default_rng(0))
    assert views.shape == (3, 24, 24, 3)
    assert (views[:2] == picture()).all()


@pytest.mark.parametrize(
    "x", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)]
)
def test_what_is_no_picture_is_an_error(x):
    for transform in ALL:
        with pytest.raises(InputError, match="uint8 pictures"):
            transform(x, np.random.default_rng(0))


def test_keyed_generators_are_uniform_and_differ():
    from scipy import stats

    first, second = (
        np.array(
            [
                Draws(seed, "transform").rng(epoch, number, 0).random(2)
                for epoch in range(2)
                for number in range(1000)
            ]
        )
        for seed in range(2)
    )
    assert len(np.unique(np.concatenate([first, second]))) == 8000
    assert stats.kstest(first.ravel(), "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]) < 0.1
    # The same on every machine: its state is a hash.
    assert Draws(0, "transform").rng(1, 2, 3).integers(2**62) == 782_348_224_689_222_447


def test_a_contrastive_view_crops_turns_grey_and_mirrors_as_often_as_moco_says():
    from scipy import stats

    x = np.zeros((32, 32, 3), np.uint8)
    x[:, :16, 0] = x[:, 16:, 1] = 200
    generator = np.random.default_rng(0)
    views = np.array([ContrastiveView(24, flip=True)(x, generator) for _ in range(1500)], np.int64)
    assert views.shape == (1500, 24, 24, 3)
    spread = views.max(3) - views.min(3)
    assert stats.binomtest(int((spread.max((1, 2)) == 0).sum()), 1500, 0.2).pvalue > 0.01
    colourful = views[spread.max((1, 2)) > 0]
    left, right = (colourful[:, :, part].mean((1, 2)) for part in (slice(4), slice(-4, None)))
    both = (left[:, 0] - left[:, 1]) * (right[:, 0] - right[:, 1]) < 0  # the crop has both halves
    mirrored = (left[:, 1] > left[:, 0])[both]
    assert stats.binomtest(int(mirrored.sum()), len(mirrored), 0.5).pvalue > 0.01
    plain = np.array([ContrastiveView(24)(x, generator) for _ in range(300)], np.int64)
    more = (plain[..., 1] - plain[..., 0])[:, :, (0, -1)].mean(1)  # of green, at the left and the right edge
    assert (more[:, 0] <= more[:, 1] + 1).all()
    areas = [np.prod(random_crop(400, 400, generator, least=0.2)[2:]) / 160_000 for _ in range(500)]
    assert 0.19 < min(areas) < 0.25
