"""The style shifts: from the untouched picture to a whole style, step by step, and the same whenever made."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from builders.albums.glyphs import GlyphAlbum
from builders.shifts.steps import OnGround
from builders.shifts.styles import network, sliders
from builders.shifts.styles.sliders import SCALES, SLIDERS, Subject, slide, strength_at, style_codes
from scripts.style_pictures import draw_style

ACROSS_PROCESSORS = 1e-3
KEY = (0, "test", "k")


@pytest.fixture(scope="module")
def subjects() -> list[Subject]:
    album, ground = GlyphAlbum(), OnGround(size=64)
    items = album.items()[50::3000]
    return [Subject.of(ground.compose(album.load(item))) for item in items]


@pytest.fixture(scope="module")
def whole(subjects) -> dict[str, list[np.ndarray]]:
    """Every subject in every whole style."""
    return {
        name: [np.asarray(slide(subject, name, 1, 1.0, KEY), dtype=float) for subject in subjects]
        for name in SLIDERS
    }


def distances(subject: Subject, name: str, picture: int = 0) -> np.ndarray:
    steps = [slide(subject, name, picture, strength_at(name, scale), KEY) for scale in SCALES]
    pixels = np.stack([np.asarray(step, dtype=float) for step in steps]) / 255
    return np.abs(pixels - pixels[0]).mean(axis=(1, 2, 3))


def test_scale_zero_is_the_untouched_picture(subjects):
    for name in SLIDERS:
        assert strength_at(name, 0) == 0
        assert slide(subjects[0], name, 0, 0.0, KEY).tobytes() == subjects[0].image.tobytes()


@pytest.mark.parametrize("name", SLIDERS)
def test_every_step_goes_further_away_and_about_as_far_as_the_last(subjects, name):
    found = np.array([distances(subject, name, 3) for subject in subjects])
    assert (np.diff(found, axis=1) > 0).all()
    share = found.mean(axis=0) / found.mean(axis=0)[-1]
    # Strengths were measured on emoji; of thin letters a sketch takes .15 more at its middle scales.
    np.testing.assert_allclose(share, np.array(SCALES) / SCALES[-1], atol=0.16)


def test_style_picture_and_key_both_count(subjects):
    for name in SLIDERS:
        made = {slide(subjects[0], name, index, 1.0, KEY).tobytes() for index in (0, 1)}
        assert len(made) == 2
    for name in set(SLIDERS) - {"cartoon"}:  # whose look draws nothing
        made = {slide(subjects[0], name, 0, 1.0, (seed, "k")).tobytes() for seed in (0, 1)}
        assert len(made) == 2


@pytest.mark.parametrize("size", [(37, 61), (16, 16)])
def test_any_form_of_picture_even_an_empty_one(size):
    subject = Subject.of(Image.new("RGB", size, (200, 30, 60)))
    for name in SLIDERS:
        made = slide(subject, name, 0, 0.8, KEY)
        assert (made.size, made.mode) == (size, "RGB")


def test_shipped_codes_are_those_of_the_style_pictures_and_of_the_shipped_network():
    import pyarrow.parquet as pq

    codes = style_codes()
    seeds = pq.read_table(sliders.CODES)["seed"].to_pylist()
    assert (codes.names, codes.size) == (tuple(sorted(SLIDERS)), 8)
    for name in SLIDERS:
        index = len(name) % codes.size
        again = network.code(draw_style(name, index, "sliders"))
        np.testing.assert_allclose(again, codes.code(name, index), rtol=0, atol=ACROSS_PROCESSORS)
        assert f"sliders/{name}/{index}" == seeds[codes.names.index(name) * codes.size + index]
    assert pq.read_schema(sliders.CODES).metadata[b"network"].decode() == network.fingerprint()
