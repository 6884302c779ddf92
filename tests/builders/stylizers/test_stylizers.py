"""What users rely on, of every stylizer: strengths, sizes, batches, reasons; and a dataset that verifies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from builders.sample import Item, Sample
from builders.shifts.steps import Stylize
from builders.shifts.styles.bank import encode_folder
from builders.shifts.stylizers import AdaIN, Arbitrary, Stylizer
from builders.shifts.stylizers.vgg import Vgg
from shiftdata.errors import InputError
from tests.builders.stylizers.networks import (
    colours_written,
    decoder_state,
    encoder_state,
    picture,
    written,
)


def stylizers(folder: Path) -> dict[str, Stylizer]:
    encoder, decoder = written(folder, "vgg19")
    adain = AdaIN(encoder=encoder, decoder=decoder, style_side=32, batch=8)
    return {"arbitrary": Arbitrary(), "adain": adain}


@pytest.fixture(scope="module", params=["arbitrary", "adain"])
def stylizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stylizer:
    return stylizers(tmp_path_factory.mktemp("weights"))[request.param]


def pixels(one: Image.Image) -> np.ndarray:
    return np.asarray(one, dtype=float)


def test_strength_0_is_the_picture_itself(stylizer: Stylizer) -> None:
    one, code = picture(40, 24), stylizer.encode(picture(64, 48, seed=9))
    untouched, painted, again = stylizer.stylize(one, [code, code, code], [0, 1, 0])
    assert untouched.tobytes() == one.tobytes() == again.tobytes()
    assert np.abs(pixels(painted) - pixels(one)).mean() > 1


@pytest.mark.parametrize("size", [(33, 47), (16, 16), (57, 18), (100, 20)])
def test_a_picture_keeps_its_size(stylizer: Stylizer, size: tuple[int, int]) -> None:
    code = stylizer.encode(picture(30, 50, seed=9))
    (made,) = stylizer.stylize(picture(*size), [code], [1])
    assert (made.size, made.mode) == (size, "RGB")


def test_a_style_is_painted_alike_alone_and_among_others(stylizer: Stylizer) -> None:
    codes = [stylizer.encode(picture(64, 64, seed=seed)) for seed in range(9, 20)]  # more than one batch
    together = stylizer.stylize(picture(), codes, [0.8] * len(codes))
    for at in (0, 7, 10):
        (alone,) = stylizer.stylize(picture(), [codes[at]], [0.8])
        assert np.abs(pixels(alone) - pixels(together[at])).max() <= 1  # a sum in another order


def test_a_code_of_another_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="encode the styles again"):
        stylizers(tmp_path)["adain"].stylize(picture(), [np.zeros(101, np.float32)], [1])


def grams(vgg: Vgg, one: Image.Image) -> list[torch.Tensor]:
    layers = vgg(vgg.read(one), ["relu1_1", "relu2_1", "relu3_1"]).values()
    return [torch.einsum("chw,dhw->cd", layer[0], layer[0]) / layer[0, 0].numel() for layer in layers]


@pytest.mark.parametrize("name", ["adain", "arbitrary"])
def test_gram_distance_grows_with_strength(tmp_path: Path, name: str) -> None:
    """Away from the untouched picture, and (but for the network that ships) nearer to the style picture."""
    encoder, decoder = colours_written(tmp_path)
    adain = AdaIN(encoder=encoder, decoder=decoder, style_side=32, batch=8)
    painter: Stylizer = {"adain": adain, "arbitrary": Arbitrary()}[name]
    vgg = Vgg(encoder, "vgg19", "relu3_1")
    strengths = [0, 0.25, 0.5, 0.75, 1]
    far, near = np.zeros(5), np.zeros(5)
    for seed in range(3):
        one, style = picture(32, 32, seed), picture(32, 32, 50 + seed)
        own, wanted = grams(vgg, one), grams(vgg, style)
        made = painter.stylize(one, [painter.encode(style)] * 5, strengths)
        for at, each in enumerate(made):
            found = grams(vgg, each)
            far[at] += sum(float((a - b).norm() / b.norm()) for a, b in zip(found, own, strict=True))
            near[at] += sum(float((a - b).norm() / b.norm()) for a, b in zip(found, wanted, strict=True))
    assert far[0] == 0
    assert (np.diff(far) > 0).all(), far
    if name != "arbitrary":
        assert near[-1] < near[1], near


# --- weights ---------------------------------------------------------------------------------------------


def test_one_network_under_any_names_and_in_any_file_is_one(tmp_path: Path) -> None:
    """torchvision's whole classifier, a file with both parts, a checkpoint around a state, other names."""
    encoder, decoder = encoder_state("vgg19"), decoder_state()
    whole = encoder | {"classifier.0.weight": torch.zeros(5, 10), "classifier.0.bias": torch.zeros(5)}
    both = {f"vgg_encoder.slice{int(n.split('.')[1]) // 9}.{n}": w for n, w in encoder.items()}
    both |= {f"decoder.rc{n.replace('.', '.conv.')}": w for n, w in decoder.items()}
    torch.save(whole, tmp_path / "whole.pth")
    torch.save({"epoch": 3, "state_dict": both}, tmp_path / "both.pt")
    save_file(decoder, tmp_path / "decoder.safetensors")
    first = AdaIN(encoder=tmp_path / "whole.pth", decoder=tmp_path / "decoder.safetensors")
    second = AdaIN(encoder=tmp_path / "both.pt", decoder=tmp_path / "both.pt")
    code = first.encode(picture(seed=3))
    assert np.array_equal(code, second.encode(picture(seed=3)))
    assert first.stylize(picture(), [code], [1]) == second.stylize(picture(), [code], [1])
    assert first.fingerprint() != second.fingerprint()  # files count, not what is in them


def of_files(encoder: Path, decoder: Path, variant: str = "vgg19") -> Callable[[], object]:
    adain = AdaIN(encoder=encoder, decoder=decoder, variant=variant)
    return lambda: adain.stylize(picture(), [adain.encode(picture())], [1])


def test_weights_of_another_network_are_refused_with_what_differs(tmp_path: Path) -> None:
    encoder, decoder = written(tmp_path, "vgg19")
    normalised, _ = written(tmp_path, "vgg19-normalised")
    shorter, narrow, shallow = (tmp_path / f"{name}.safetensors" for name in ("shorter", "narrow", "shallow"))
    state = encoder_state("vgg19")
    save_file({name: state[name] for name in state if not name.startswith("features.16.")}, shorter)
    save_file(decoder_state(widths=(4, 5, 8, 10)), narrow)
    save_file(decoder_state(widths=(4, 6, 8)), shallow)
    for work, message in (
        (
            of_files(shorter, decoder),
            r"shorter.safetensors is not the weights of a vgg19: conv3_4 gives 8 channels",
        ),
        (of_files(normalised, decoder), "of a vgg19: it has 16 convolutions, and the file has 17"),
        (of_files(encoder, decoder, "vgg19-normalised"), "colours reads 3 channels, 1 x 1"),
        (
            of_files(encoder, shallow),
            "is not a decoder from relu4_1 of this encoder: it has 5 convolutions",
        ),
        (of_files(encoder, narrow), r"it has 9 convolutions and should have 9; number 5 is \(5, 8, 3, 3\)"),
        (of_files(decoder, decoder), "not the weights of a vgg19: conv1_1 reads 3 channels"),
    ):
        with pytest.raises(InputError, match=message):
            work()


def test_files_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    _, decoder = written(tmp_path, "vgg19")
    (tmp_path / "page.pth").write_text("<!doctype html>")
    (tmp_path / "page.safetensors").write_text("<!doctype html>")
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"few": torch.zeros(3, 3, 3, 3)}, tmp_path / "few.pth")
    torch.save({"run": os.system}, tmp_path / "code.pth")
    for name, message in (
        ("page.pth", "cannot be read as weights|contains more than weights"),
        ("page.safetensors", "page.safetensors cannot be read as weights"),
        ("list.pth", "has no weights by name: save the state_dict"),
        ("few.pth", "conv4_1 is its convolution number 9, and the file has 0"),
        ("code.pth", "contains more than weights, and reading it could run code"),
        ("none.pth", "there is no file of weights .*: give the path of a .safetensors"),
    ):
        with pytest.raises(InputError, match=message):
            of_files(tmp_path / name, decoder)()


# --- identity and banks ----------------------------------------------------------------------------------


def test_everything_that_changes_a_pixel_changes_the_fingerprint(tmp_path: Path) -> None:
    encoder, decoder = written(tmp_path, "vgg19")
    other, other_decoder = written(tmp_path, "vgg19", seed=5)
    plain = {"encoder": encoder, "decoder": decoder}
    of_adain = [
        plain,
        *(
            plain | one
            for one in ({"batch": 2}, {"precision": "bfloat16"}, {"device": "cuda"}, {"style_side": None})
        ),
        plain | {"encoder": other},
        plain | {"decoder": other_decoder},
        plain | {"variant": "vgg19-normalised"},
    ]
    every = [AdaIN(**one).fingerprint() for one in of_adain]  # type: ignore[arg-type]
    assert len(set(every)) == len(every)


def test_codes_do_not_depend_on_the_decoder(tmp_path: Path) -> None:
    encoder, decoder = written(tmp_path, "vgg19")
    _, other = written(tmp_path, "vgg19", seed=5)
    first, second = (AdaIN(encoder=encoder, decoder=one) for one in (decoder, other))
    assert first.codes_id() == second.codes_id()


@pytest.fixture
def own_styles(tmp_path: Path) -> Path:
    folder = tmp_path / "styles"
    for style, seeds in (("clay", (1, 2, 3)), ("moss", (4, 5))):
        (folder / style).mkdir(parents=True)
        for seed in seeds:
            picture(50, 40, seed).save(folder / style / f"{seed}.png")
    return folder


def painted(step: Stylize) -> dict[str, bytes]:
    item = Item(key="one", label="a", origin="one", license="CC0-1.0", attribution="none")
    return {s.key: s.image.tobytes() for s in step(iter([Sample(item=item, key="one", example=picture())]))}


def test_a_folder_and_its_codes_paint_the_same(stylizer: Stylizer, own_styles: Path, tmp_path: Path) -> None:
    encode_folder(own_styles, stylizer).write(tmp_path / "bank.parquet", stylizer)
    folder = Stylize(seed=0, dataset="d", styles=own_styles, stylizer=stylizer)
    codes = Stylize(seed=0, dataset="d", styles=tmp_path / "bank.parquet", stylizer=stylizer)
    assert painted(folder) == painted(codes)
    assert folder.nuisances == codes.nuisances == ("clay", "moss")
    assert folder.fingerprint() == codes.fingerprint()
