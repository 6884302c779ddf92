"""Every number of the stylizers against plain loops in doubles, layer by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from builders.shifts.stylizers import AdaIN
from builders.shifts.stylizers.adain import moments
from builders.shifts.stylizers.vgg import LAYOUTS, Decoder, Vgg, decoder_plan, shown
from tests.builders.stylizers import plain
from tests.builders.stylizers.networks import (
    WIDTHS,
    decoder_state,
    encoder_shapes,
    encoder_state,
    picture,
    written,
)

VARIANTS = ("vgg19", "vgg19-normalised")
DOUBLED = [at for at, step in enumerate(decoder_plan(WIDTHS[:4])) if step.doubles]


def of_plain(one: Image.Image, variant: str, last: str, seed: int = 0) -> dict[str, np.ndarray]:
    names = [name for name, *_ in encoder_shapes(variant)]
    pixels = plain.read(np.asarray(one), variant)
    padding = "reflect" if variant == "vgg19-normalised" else "constant"
    return plain.encoded(pixels, encoder_state(variant, seed), names, padding, last)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_layer_is_that_of_a_plain_network(tmp_path: Path, variant: str) -> None:
    vgg = Vgg(written(tmp_path, variant)[0], variant, "relu5_1")
    wanted = of_plain(picture(), variant, "relu5_1")
    found = vgg(vgg.read(picture()), list(wanted))
    assert list(found) == list(wanted)
    for name in wanted:
        np.testing.assert_allclose(found[name][0], wanted[name], rtol=1e-4, atol=1e-5 * wanted[name].max())


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_decoder_is_a_plain_one(tmp_path: Path, variant: str) -> None:
    encoder, file = written(tmp_path, variant)
    decoder = Decoder(file, Vgg(encoder, variant, "relu4_1"))
    x = torch.rand(1, WIDTHS[3], 4, 4, generator=torch.Generator().manual_seed(5))
    wanted = plain.decoded(x[0].double().numpy(), decoder_state(), DOUBLED)
    np.testing.assert_allclose(decoder(x)[0], wanted, rtol=1e-4, atol=1e-5)
    (one,) = shown(torch.from_numpy(wanted)[None], LAYOUTS[variant].range, (8, 8))
    assert np.abs(np.asarray(one) - plain.shown(wanted, variant)[:8, :8]).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("strength", [0.3, 1.0])
def test_adain_is_that_of_its_public_codes(tmp_path: Path, variant: str, strength: float) -> None:
    """Features of content times (style's moments over content's), with alpha between them, decoded."""
    encoder, decoder = written(tmp_path, variant)
    one, style = picture(seed=1), picture(40, 32, seed=2)
    content_features = of_plain(one, variant, "relu4_1")["relu4_1"]
    style_features = of_plain(style, variant, "relu4_1")["relu4_1"]
    (mean, deviation), (to_mean, to_deviation) = (
        plain.moments(each, variant) for each in (content_features, style_features)
    )
    moved = (content_features - mean) / deviation * to_deviation + to_mean
    mixed = strength * moved + (1 - strength) * content_features
    wanted = plain.shown(plain.decoded(mixed, decoder_state(), DOUBLED), variant)

    adain = AdaIN(encoder=encoder, decoder=decoder, variant=variant, style_side=None)
    code = adain.encode(style)
    np.testing.assert_allclose(
        code, np.concatenate([to_mean.ravel(), to_deviation.ravel()]), rtol=2e-4, atol=1e-5
    )
    (made,) = adain.stylize(one, [code], [strength])
    assert (np.asarray(made) % 255 > 0).mean() > 0.02  # not all of it is cut at black and white
    assert np.abs(np.asarray(made) - wanted).max() <= 0.51


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_epsilons_count_where_a_channel_is_flat(variant: str) -> None:
    """By n - 1; 1e-5 within the root for the normalised VGG, 1e-6 beside the deviation for the others."""
    x = torch.zeros(1, 2, 2, 2, dtype=torch.float64)
    x[0, 1] = torch.tensor([[0.0, 2e-3], [0.0, 2e-3]])
    deviation = moments(x, variant)[1].flatten().double()
    spread = 4e-6 / 3
    wanted = [1e-5**0.5, (spread + 1e-5) ** 0.5] if "normalised" in variant else [1e-6, spread**0.5 + 1e-6]
    np.testing.assert_allclose(deviation, wanted, rtol=1e-5)


def test_other_sides_are_filled_by_reflection(tmp_path: Path) -> None:
    encoder, decoder = written(tmp_path, "vgg19")
    adain = AdaIN(encoder=encoder, decoder=decoder)
    odd, code = picture(29, 34), adain.encode(picture(64, 64, seed=2))
    whole = Image.fromarray(np.pad(np.asarray(odd), [(0, 6), (0, 3), (0, 0)], mode="reflect"))
    (made,), (wanted,) = (adain.stylize(one, [code], [1]) for one in (odd, whole))
    assert made.tobytes() == wanted.crop((0, 0, 29, 34)).tobytes()
