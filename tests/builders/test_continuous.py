"""The step of continuous shifts: seeds, names and params."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from builders.sample import Item, Sample
from builders.shifts.steps import Continuous
from builders.shifts.styles import network
from builders.shifts.styles.sliders import SLIDERS, Subject, slide
from shiftdata.errors import InputError

ITEM = Item(key="k", label="a", origin="a/k", license="MIT", attribution="x")


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    coarse = np.random.default_rng(0).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((32, 32))


def samples(picture: Image.Image, **options) -> list[Sample]:
    step = Continuous(**{"dataset": "d", "seeds": (0, 1), **options})
    return list(step(iter([Sample(item=ITEM, key="k", example=picture)])))


def test_a_seed_gives_other_pictures_and_changes_no_other_seed(picture):
    both, one = samples(picture), samples(picture, seeds=(1,))
    pixels = {sample.key: sample.image.tobytes() for sample in both}
    assert len(pixels) == 14 * 2 * 6
    assert {sample.key: sample.image.tobytes() for sample in one}.items() <= pixels.items()
    for name in Continuous(dataset="d", seeds=(0,)).nuisances:
        assert pixels[f"k-{name}-s0-250"] != pixels[f"k-{name}-s1-250"]


def test_params_are_enough_to_make_a_style_shift_again(picture):
    for sample in samples(picture)[4::12]:
        if sample.nuisance in SLIDERS:
            params = sample.params
            key = (params["seed"], "d", "k", sample.nuisance)
            subject = Subject.of(picture)
            again = slide(subject, sample.nuisance, params["style_picture"], params["strength"], key)
            assert again.tobytes() == sample.image.tobytes()


@pytest.mark.parametrize("seeds", [(), (1, 1), (0, 8)])
def test_seeds_that_cannot_be_told_apart_are_refused(seeds):
    with pytest.raises(InputError, match="0 to 7, each once, at least one; got"):
        Continuous(dataset="d", seeds=seeds)


def test_what_makes_the_pictures_identifies_the_step():
    first = Continuous(dataset="d", seeds=(0,)).fingerprint()
    assert first == Continuous(dataset="d", seeds=(0,)).fingerprint()
    assert first != Continuous(dataset="d", seeds=(1,)).fingerprint()
    assert first != Continuous(dataset="e", seeds=(0,)).fingerprint()
    assert first != Continuous(dataset="d", seeds=(0,), names=("snow", "tattoo")).fingerprint()


def test_a_shift_is_the_same_whichever_others_are_chosen(picture, monkeypatch):
    every = {sample.key: (sample.image.tobytes(), sample.params) for sample in samples(picture)}
    for names in (("tattoo", "snow"), ("snow", "fog")):
        chosen = samples(picture, names=names)
        assert [sample.nuisance for sample in chosen[::12]] == list(names)
        assert all(every[one.key] == (one.image.tobytes(), one.params) for one in chosen)
    known = Continuous(dataset="d", seeds=(0,), names=("snow",)).fingerprint()
    monkeypatch.setattr(network, "fingerprint", lambda: "another")
    assert Continuous(dataset="d", seeds=(0,), names=("snow",)).fingerprint() == known  # paints nothing


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("snwo", "fog"), "unknown shift 'snwo'; did you mean 'snow'"),
        ("snow", r"a tuple of names, got the text 'snow'; write names=\('snow',\)"),
        (("fog", "fog"), "each once"),
    ],
)
def test_a_choice_of_shifts_that_cannot_be_is_refused(names, message):
    with pytest.raises(InputError, match=message):
        Continuous(dataset="d", seeds=(0,), names=names)
