from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from builders.encode import ImageEncoding
from builders.sample import Item, Sample
from builders.shifts.steps import OnGround, Stylize
from shiftdata.errors import InputError

ITEM = Item(key="k", label="a", origin="a/k", license="MIT", attribution="x")


def sample(picture: Image.Image) -> Sample:
    return Sample(item=ITEM, key="k", example=picture)


def composed(picture: Image.Image, **options) -> Image.Image:
    (made,) = OnGround(**options)(iter([sample(picture)]))
    return made.image


def test_a_cut_out_stands_centred_on_the_ground():
    red = Image.new("RGBA", (40, 20), (255, 0, 0, 255))
    pixels = np.asarray(composed(red, size=100, ground=(0, 0, 255), margin=0.1))
    inside = (pixels == (255, 0, 0)).all(axis=-1)
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    assert (columns[0], columns[-1], rows[0], rows[-1]) == (10, 89, 30, 69)
    assert (pixels[~inside] == (0, 0, 255)).all()


def test_transparent_pixels_do_not_colour_the_edge():
    pixels = np.zeros((64, 64, 4), dtype=np.uint8)
    pixels[...] = (0, 255, 0, 0)
    pixels[16:48, 16:48] = (255, 255, 255, 255)
    made = np.asarray(composed(Image.fromarray(pixels), size=23, ground=(255, 255, 255)))
    assert made.min() >= 254


def test_a_photograph_fills_the_frame():
    made = composed(Image.new("RGB", (30, 30), (9, 9, 9)), size=50, margin=0)
    assert made.getcolors() == [(2500, (9, 9, 9))]


@pytest.mark.parametrize("form", ["jpeg", "png"])
def test_equal_pictures_give_equal_bytes_without_metadata(form):
    picture = Image.new("RGB", (8, 8), (10, 200, 30))
    tagged = picture.copy()
    tagged.info["comment"] = b"made on a Tuesday"
    encoding = ImageEncoding(format=form)
    assert encoding.encode(sample(picture)) == encoding.encode(sample(tagged))


@pytest.mark.parametrize(
    ("options", "message"), [({"format": "webp"}, "'jpeg' or 'png'"), ({"quality": 0}, "1 and 100")]
)
def test_bad_encodings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        ImageEncoding(**options)


def test_strength_runs_from_the_untouched_picture_to_the_full_style():
    coarse = np.random.default_rng(0).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    content = Sample(item=ITEM, key="k", example=Image.fromarray(coarse).resize((32, 32)))

    def painted(strength: float) -> dict[str | None, np.ndarray]:
        step = Stylize(seed=0, dataset="d", strength=strength)
        made = list(step(iter([content])))
        assert {sample.severity for sample in made} == {strength}
        return {sample.nuisance: np.asarray(sample.image, dtype=float) for sample in made}

    none, half, full = painted(0), painted(0.5), painted(1)
    for style, image in none.items():
        assert np.array_equal(image, np.asarray(content.image))
        assert not np.array_equal(half[style], full[style])
    with pytest.raises(InputError, match="between 0 and 1, got 2"):
        Stylize(seed=0, dataset="d", strength=2)
