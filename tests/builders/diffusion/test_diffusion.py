"""Sliders of a diffusion model, on the real classes with a few random weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from builders.cli.app import main
from builders.shifts.diffusion import Diffusion, Slider, Training, read_slider, train
from builders.shifts.diffusion.pipeline import slid, start
from builders.shifts.diffusion.slider import DOWN, adapted_layers
from builders.shifts.diffusion.training import _Trainer
from shiftdata.errors import InputError
from shiftdata.stable import hash64, rng
from tests.builders.diffusion.tiny import pipeline

SHORT = Training(iterations=6, batch=2, levels=10, every=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pipeline(tmp_path_factory.mktemp("sd") / "tiny")


@pytest.fixture(scope="module")
def diffusion(folder: Path) -> Diffusion:
    return Diffusion(folder=folder, steps=10, size=32)


def pixels(one: Image.Image) -> np.ndarray:
    return np.asarray(one, dtype=float)


def random_slider(diffusion: Diffusion, size: float = 0.3) -> Slider:
    draw = torch.Generator().manual_seed(3)
    slider = Slider.new(diffusion.networks.unet, draw, rank=4)
    up = {name: size * torch.randn(one.shape, generator=draw) for name, one in slider.up.items()}
    return replace(slider, up=up)


# --- drawing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prediction", ["v_prediction", "epsilon"])
@pytest.mark.parametrize("scheduler", ["ddim", "unipc"])
def test_scale_0_is_what_the_pipeline_of_diffusers_draws(
    tmp_path: Path, prediction: str, scheduler: str
) -> None:
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UniPCMultistepScheduler
    from diffusers import UNet2DConditionModel as Denoiser
    from transformers import CLIPTextModel, CLIPTokenizer

    place = pipeline(tmp_path / "sd", prediction=prediction)
    ours = Diffusion(folder=place, steps=9, size=32, negative_prompt="dull", scheduler=scheduler)  # type: ignore[arg-type]
    kind = DDIMScheduler if scheduler == "ddim" else UniPCMultistepScheduler
    theirs = StableDiffusionPipeline(
        vae=AutoencoderKL.from_pretrained(place / "vae"),
        text_encoder=CLIPTextModel.from_pretrained(place / "text_encoder"),
        tokenizer=CLIPTokenizer.from_pretrained(place / "tokenizer"),
        unet=Denoiser.from_pretrained(place / "unet"),
        scheduler=kind.from_config(json.loads((place / "scheduler/scheduler_config.json").read_text())),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    theirs.set_progress_bar_config(disable=True)
    drawn = theirs(
        "A picture of a red fox",
        negative_prompt="dull",
        num_inference_steps=9,
        guidance_scale=7.5,
        height=32,
        width=32,
        generator=torch.Generator().manual_seed(5),
    ).images[0]
    assert np.abs(pixels(drawn) - pixels(start(ours, "red_fox", 5, 0.75).untouched)).max() <= 1


@pytest.mark.parametrize("scheduler", ["ddim", "unipc"])
def test_what_is_shared_is_what_a_plain_loop_draws(folder: Path, scheduler: str) -> None:
    """The slider at 0 above the switch and at its scale below it, alone, from the first step on."""
    diffusion = Diffusion(folder=folder, steps=12, size=32, scheduler=scheduler)  # type: ignore[arg-type]
    slider, unet = random_slider(diffusion), diffusion.networks.unet
    made = slid(diffusion, start(diffusion, "fox", 7, 0.6), slider, [0.5, 2.5])
    for picture, scale in zip(made, (0.5, 2.5), strict=True):
        plan = diffusion.new_scheduler()
        latents = diffusion.noise(7) * plan.init_noise_sigma
        without, text = diffusion.texts(["", "A picture of a fox"]).unsqueeze(1)
        for t in plan.timesteps:
            with torch.no_grad(), slider.on(unet, torch.tensor([0.0 if t > 600 else scale])):
                said = diffusion.guided(latents, t, without, text, 7.5)
            latents = plan.step(said, t, latents, return_dict=False)[0]
        vae = diffusion.networks.vae
        with torch.no_grad():
            unit = (vae.decode(latents / vae.config.scaling_factor).sample / 2 + 0.5).clamp(0, 1)
        plain = (unit[0].permute(1, 2, 0).numpy() * 255).round()
        assert np.abs(pixels(picture) - plain).max() <= 1


def test_a_known_direction_moves_the_picture_as_far_as_its_scale(folder: Path) -> None:
    """A slider on one of the last layers that adds the same to all channels, farther with every step."""
    diffusion = Diffusion(folder=folder, steps=10, size=32, guidance=1)
    unet = diffusion.networks.unet
    name = next(reversed(adapted_layers(unet)))
    layer = adapted_layers(unet)[name]
    down = torch.zeros(1, *layer.weight.shape[1:])
    down[:, :, 1, 1] = 0.3
    slider = Slider({name: down}, {name: torch.ones(len(layer.weight), 1, 1, 1)}, {name: 1.0})
    scales = [0.5, 1.0, 1.5, 2.0, 2.5]
    for seed in (1, 2, 3):
        begun = start(diffusion, "fox", seed, 0.75)
        far = [
            np.abs(pixels(one) - pixels(begun.untouched)).mean()
            for one in slid(diffusion, begun, slider, scales)
        ]
        assert (np.diff([0.0, *far]) > 0).all(), far


# --- sliders and their files -----------------------------------------------------------------------------


def test_a_layer_with_a_slider_is_its_weight_plus_the_product(diffusion: Diffusion) -> None:
    """W + s alpha / rank (up down): of a linear layer, of a convolution of stride 2, a scale for each row."""
    unet, slider = diffusion.networks.unet, random_slider(diffusion)
    draw = torch.Generator().manual_seed(1)
    for name in ("down_blocks.0.downsamplers.0.conv", "mid_block.resnets.0.time_emb_proj"):
        layer = adapted_layers(unet)[name]
        shape = (4, layer.weight.shape[1], *([6, 6] if layer.weight.ndim == 4 else []))
        x = torch.randn(shape, generator=draw)
        with torch.no_grad(), slider.on(unet, torch.tensor([0.5, 2.0])):
            made = layer(x)
        product = torch.einsum("or...,r...->o...", slider.up[name].flatten(1), slider.down[name].flatten(1))
        for row, scale in enumerate((0.5, 2.0, 0.5, 2.0)):  # twice as many rows: guidance
            changed = layer.weight + scale / len(slider.down[name]) * product.view(layer.weight.shape)
            if layer.weight.ndim == 4:
                wanted = torch.nn.functional.conv2d(
                    x[row : row + 1], changed, layer.bias, layer.stride, layer.padding
                )
            else:
                wanted = torch.nn.functional.linear(x[row : row + 1], changed, layer.bias)
            torch.testing.assert_close(made[row : row + 1], wanted, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        assert not layer._forward_hooks


def test_a_file_gives_back_its_slider_as_do_the_authors_files(diffusion: Diffusion, tmp_path: Path) -> None:
    slider, unet = random_slider(diffusion), diffusion.networks.unet
    slider.write(tmp_path / "s.safetensors", {"shift": "snow"})
    torch.save(load_file(tmp_path / "s.safetensors"), tmp_path / "authors.pt")
    for name in ("s.safetensors", "authors.pt"):
        again = read_slider(tmp_path / name, unet)
        assert all(torch.equal(slider.up[layer], again.up[layer]) for layer in slider.up)
        assert all(torch.equal(slider.down[layer], again.down[layer]) for layer in slider.down)
        assert again.alpha == slider.alpha
    keys = list(load_file(tmp_path / "s.safetensors"))
    assert "lora_unet_down_blocks_0_resnets_0_conv1.lora_down.weight" in keys


def test_a_slider_of_another_model_is_refused_by_name(diffusion: Diffusion, tmp_path: Path) -> None:
    unet = diffusion.networks.unet
    random_slider(diffusion).write(tmp_path / "s.safetensors", {})
    state = load_file(tmp_path / "s.safetensors")
    first = next(key for key in state if key.endswith(DOWN))
    renamed = {key.replace("down_blocks_0", "down_blocks_7"): one for key, one in state.items()}
    save_file(renamed, tmp_path / "renamed.safetensors")
    with pytest.raises(InputError, match="is of another denoiser: it adapts lora_unet_down_blocks_7"):
        read_slider(tmp_path / "renamed.safetensors", unet)
    save_file(state | {first: torch.zeros(4, 99, *state[first].shape[2:])}, tmp_path / "wide.safetensors")
    wide = read_slider(tmp_path / "wide.safetensors", unet)
    with pytest.raises(InputError, match=r"is of another denoiser: at .*; the layer's weight is"):
        slid(diffusion, start(diffusion, "fox", 1, 0.75), wide, [1.0])
    save_file({"weight": torch.zeros(2)}, tmp_path / "none.safetensors")
    with pytest.raises(InputError, match=f"is not a slider: it has no weight that ends in {DOWN}"):
        read_slider(tmp_path / "none.safetensors", unet)


# --- training --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_training_brings_the_slider_nearer_to_the_shift(diffusion: Diffusion, tmp_path: Path) -> None:
    file = tmp_path / "s.safetensors"
    train(diffusion, "fox", "heavy snow", file, replace(SHORT, iterations=40, lr=5e-3))
    with safe_open(file, "pt") as opened:
        about = json.loads(opened.metadata()["about"])
    losses = about["losses"]
    assert len(losses) == 40
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])
    assert (about["shift"], about["label"], about["variant"]) == ("heavy snow", "fox", "paper")
    assert about["pipeline"] == diffusion.weights_id()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_a_stopped_training_ends_in_the_same_weights(diffusion: Diffusion, tmp_path: Path, stop: int) -> None:
    whole = train(diffusion, "fox", "snow", tmp_path / "whole.safetensors", SHORT)

    def stopping(step: int, loss: float) -> None:
        if step == stop:
            raise KeyboardInterrupt

    again = tmp_path / "again.safetensors"
    with pytest.raises(KeyboardInterrupt):
        train(diffusion, "fox", "snow", again, SHORT, on_step=stopping)
    assert not again.exists()
    steps: list[int] = []
    train(diffusion, "fox", "snow", again, SHORT, on_step=lambda step, loss: steps.append(step))
    assert steps[0] == stop // 2 * 2 if stop >= 2 else steps[0] == 0
    assert again.read_bytes() == whole.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.safetensors", "whole.safetensors"]


def test_a_step_pulls_towards_neutral_plus_four_times_the_shift(diffusion: Diffusion) -> None:
    """The loss of a step that changes nothing yet: 16 times the mean square of what the shift adds."""
    trainer = _Trainer(diffusion, "fox", "snow", SHORT)
    loss = trainer.step(0)
    count = int(rng("slider", "fox", "snow", "level", 0).integers(1, SHORT.levels))
    plan = diffusion.new_scheduler(SHORT.levels)
    latents = diffusion.noise(hash64("slider", "fox", "snow", "noise", 0) >> 1, SHORT.batch)
    nothing, neutral, shifted = (
        diffusion.texts([text]).repeat(SHORT.batch, 1, 1)
        for text in ("", "A picture of a fox", "A picture of a fox in snow")
    )
    with torch.no_grad():
        for t in plan.timesteps[:count]:
            latents = plan.step(diffusion.guided(latents, t, nothing, neutral, 7.5), t, latents).prev_sample
        t = diffusion.new_scheduler(1000).timesteps[count * 1000 // SHORT.levels]
        adds = diffusion.predicted(latents, t, shifted) - diffusion.predicted(latents, t, neutral)
    assert loss == pytest.approx(16 * float(adds.square().mean()), rel=1e-4)


@pytest.mark.parametrize("damage", ["no unet", "other unet", "pickle", "cut"])
def test_a_folder_that_is_no_pipeline_is_refused(tmp_path: Path, damage: str) -> None:
    place = pipeline(tmp_path / "sd")
    config, weights = place / "unet/config.json", place / "unet/diffusion_pytorch_model.safetensors"
    if damage == "no unet":
        (place / "unet").rename(place / "transformer")
    elif damage == "other unet":
        config.write_text(config.read_text().replace("UNet2DConditionModel", "SD3Transformer2DModel"))
    elif damage == "pickle":
        weights.rename(weights.with_suffix(".bin"))
    else:
        weights.write_bytes(weights.read_bytes()[:1000])
    messages = {
        "no unet": "is not a Stable Diffusion pipeline: it has no folder unet",
        "other unet": "its unet is a SD3Transformer2DModel",
        "pickle": "has no .safetensors: other files of weights could run code",
        "cut": "cannot be read as a Stable Diffusion pipeline",
    }
    with pytest.raises(InputError, match=messages[damage]):
        start(Diffusion(folder=place, size=32), "fox", 1, 0.75)


def test_a_change_of_any_weight_or_setting_changes_the_fingerprint(folder: Path, tmp_path: Path) -> None:
    plain = Diffusion(folder=folder)
    other = pipeline(tmp_path / "other", seed=1)
    changes = ({"steps": 3}, {"guidance": 2}, {"scheduler": "unipc"}, {"size": 64}, {"device": "cuda"})
    more = ({"precision": "bfloat16"}, {"prompt": "{label}"}, {"negative_prompt": "ugly"}, {"folder": other})
    every = {plain.fingerprint(), *(replace(plain, **one).fingerprint() for one in (*changes, *more))}  # type: ignore[arg-type]
    assert len(every) == 10


# --- the command line ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sliders_are_trained_and_looked_at_from_the_command_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classes, sliders = tmp_path / "classes.txt", tmp_path / "sliders"
    classes.write_text("fox\nvan\n\n")
    common = ["--shifts", "heavy snow,fog", "--classes", str(classes), "--size", "32", "--variant", "code"]
    short = ["--iterations", "1", "--batch", "1"]
    for world in (["--rank", "0", "--world", "2"], ["--rank", "1", "--world", "2"], []):
        assert main(["sliders", "train", str(folder), str(sliders), *common, *short, *world]) == 0
    assert "4 of 4 sliders are there" in capsys.readouterr().out
    assert sorted(str(file.relative_to(sliders)) for file in sliders.rglob("*.*")) == [
        f"{shift}/{label}.safetensors" for shift in ("fog", "heavy-snow") for label in ("fox", "van")
    ]
