from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from builders.encode import ImageEncoding
from builders.sample import BadItem, Item, Sample
from builders.shifts.steps import Continuous, Corrupt, CropSquare, OnGround, Pad, Resize, Stylize
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


FRAMES = [
    *(Pad(size=40, fill=fill) for fill in ("reflect", "edge", "blur")),
    CropSquare(size=40),
    Resize(size=40),
    OnGround(size=40),
]


def odd_pictures() -> dict[str, Image.Image]:
    pixels = np.random.default_rng(0).integers(0, 256, (96, 128, 4), dtype=np.uint8)
    noise = Image.fromarray(pixels[..., :3])
    return {
        "thread": noise.resize((1, 2000)),
        "tiny": noise.resize((8, 8)),
        "pixel": noise.resize((1, 1)),
        "wide": noise,
        "grey": noise.convert("L"),
        "bits": noise.convert("1"),
        "palette": noise.quantize(16),
        "cut-out": Image.fromarray(pixels),
        "grey cut-out": Image.fromarray(pixels).convert("LA"),
        "empty": Image.new("RGBA", (30, 20)),
    }


@pytest.mark.parametrize("step", FRAMES, ids=repr)
def test_every_picture_ends_in_one_form_and_the_same_each_time(step):
    for name, picture in odd_pictures().items():
        made, again = (step.compose(picture.copy(), "a") for _ in range(2))
        assert (made.mode, made.size) == ("RGB", (40, 40)), name
        assert made.tobytes() == again.tobytes(), name


def test_padding_keeps_the_whole_picture_and_cropping_its_middle():
    halves = np.zeros((20, 40, 3), dtype=np.uint8)
    halves[:, :4] = halves[:, -4:] = (255, 0, 0)  # seen only where the whole picture is
    wide = Image.fromarray(halves)
    kept = {repr(step): step.compose(wide).getpixel((1, 20))[0] > 200 for step in FRAMES}
    assert kept == {repr(step): not isinstance(step, CropSquare) for step in FRAMES}
    assert CropSquare(size=10).compose(wide).getcolors() == [(100, (0, 0, 0))]


@pytest.mark.parametrize("step", FRAMES[:-1], ids=repr)
def test_the_ground_of_a_cut_out_is_its_own_and_shows_the_object(step):
    """One colour behind all would give away which pictures were transparent."""
    corners, apart = [], []
    for number in range(12):
        fill = np.random.default_rng(number).integers(0, 256, 3)
        cutout = np.zeros((30, 30, 4), dtype=np.uint8)
        cutout[8:22, 8:22] = (*fill, 255)
        made = np.asarray(step.compose(Image.fromarray(cutout), str(number))).astype(int)
        corners.append(tuple(made[0, 0]))
        apart.append(np.abs(made[0, 0] - fill).sum())
    assert len(set(corners)) == len(corners)
    assert min(apart) > 60


@pytest.mark.parametrize("form", ["jpeg", "png"])
def test_equal_pictures_give_equal_bytes_without_metadata(form):
    picture = Image.new("RGB", (8, 8), (10, 200, 30))
    tagged = picture.copy()
    tagged.info["comment"] = b"made on a Tuesday"
    encoding = ImageEncoding(format=form)
    assert encoding.encode(sample(picture)) == encoding.encode(sample(tagged))


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


@pytest.mark.parametrize(
    "step", [Corrupt(seed=0, dataset="d"), Continuous(dataset="d", seeds=(0,)), Stylize(seed=0, dataset="d")]
)
def test_a_picture_that_cannot_be_shifted_is_refused_or_left_out(step):
    clear = sample(Image.new("RGBA", (40, 40)))
    with pytest.raises(InputError, match="picture of k is RGBA, not RGB: put a step into"):
        next(iter(step(iter([clear]))))
    with pytest.raises(BadItem, match=r"fewer than 16 pixels wide or high \(12 x 40\)"):
        next(iter(step(iter([sample(Image.new("RGB", (12, 40)))]))))
    with pytest.raises(
        InputError, match="k has transparent pixels, which a JPEG file cannot store: fill them"
    ):
        ImageEncoding(format="jpeg").encode(clear)
