"""The recipe of `cns_emoji` by the same code, smaller: 4 classes, one vendor, 32 pixels, 3 pictures each."""

from __future__ import annotations

import textwrap
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

from builders.albums.emoji import EmojiAlbum
from builders.make.build import build
from builders.make.check import check
from builders.sample import Item, Sample
from builders.shifts.steps import Continuous
from builders.shifts.styles import network
from builders.shifts.styles.sliders import SCALES, SLIDERS, Subject, slide
from shiftdata.data.format.manifest import Manifest
from shiftdata.errors import InputError
from tests.builders.few_emoji import few_classes

ITEM = Item(key="k", label="a", origin="a/k", license="MIT", attribution="x")
SMALL = """
    from dataclasses import replace
    from pathlib import Path

    from builders.albums.emoji import EmojiAlbum
    from builders.recipe import Base
    from builders.recipe_files import load_recipe
    from builders.shifts.steps import OnGround
    from builders.shifts.steps import Continuous

    GROUND = OnGround(size=32)
    RECIPE = replace(
        load_recipe("cns_emoji"),
        name="small",
        album=EmojiAlbum(vendors=("noto",), assets=Path(__file__).parent / "emoji", size=GROUND.inner),
        prepare=(GROUND,),
        shift=Continuous(dataset="small", seeds=(0,)),
        bases=(
            Base(name="content", summary="Untouched.", layer="content", per_group=3),
            Base(name="mini", summary="3 a class.", per_group=3),
        ),
    )
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("small") / "small.py"
    few_classes(path.parent / "emoji", EmojiAlbum().labels[::5])
    path.write_text(textwrap.dedent(SMALL))
    return build(str(path), path.parent, workers=1, quiet=True)


@pytest.fixture(scope="module")
def rows(small) -> datasets.Dataset:
    return datasets.load_dataset(str(small), "mini", split="validation")


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    coarse = np.random.default_rng(0).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((32, 32))


def samples(picture: Image.Image, **options) -> list[Sample]:
    step = Continuous(**{"dataset": "d", "seeds": (0, 1), **options})
    return list(step(iter([Sample(item=ITEM, key="k", example=picture)])))


@pytest.mark.slow
def test_it_holds_every_class_in_every_shift_and_nothing_is_wrong(small):
    manifest = Manifest.read(small)
    assert (len(manifest.labels), len(manifest.nuisances)) == (4, 14)
    assert tuple(manifest.severities) == SCALES
    counts = {split: record.rows for split, record in manifest.base("mini").splits.items()}
    assert counts == dict.fromkeys(("train", "validation", "test"), 4 * 14 * 6)
    assert not any(base.dropped for base in manifest.bases)
    assert check(small) == []


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
