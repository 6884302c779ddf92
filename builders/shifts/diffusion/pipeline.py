"""A Stable Diffusion pipeline as a record, and pictures drawn from it along sliders."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from PIL import Image

from builders.shifts.devices import OnDevice
from builders.shifts.diffusion.slider import Slider
from builders.shifts.stylizers.weights import hub_folder, used_weights, weights_hash
from shiftdata.data.format.records import UsedFile
from shiftdata.errors import InputError
from shiftdata.extras import require
from shiftdata.stable import content_hash
from shiftdata.untrusted.texts import read_json

if TYPE_CHECKING:
    from torch import Tensor

#: What the command line and recipes name the settings of the paper and of its published code by.
PAPER: Mapping[str, Any] = {"steps": 100, "negative_prompt": ""}
CODE: Mapping[str, Any] = {
    "steps": 50,
    "negative_prompt": "blurry,text,caption,lowquality,lowresolution,low res,grainy,ugly",
}

PARTS = ("unet", "vae", "text_encoder", "tokenizer", "scheduler")
MOST_SEED = 2**63 - 1


class Networks(NamedTuple):
    """The loaded parts of a pipeline."""

    unet: Any
    vae: Any
    text_encoder: Any
    tokenizer: Any


@dataclass(frozen=True, kw_only=True)
class Diffusion(OnDevice):
    """Stable Diffusion from a folder (or `hf://owner/name`), and how it draws.

    The folder is one that diffusers writes, with the parts unet, vae, text_encoder, tokenizer and scheduler,
    and weights as safetensors. `prompt` names the picture; {label} is filled in, underscores as spaces. A
    seed draws the first noise on the processor, so that it is the same on every device. `**PAPER` and
    `**CODE` are the settings of CNS-Bench's paper (DDIM, 100 steps) and of its code (50, a negative prompt).
    """

    folder: Path | str
    prompt: str = "A picture of a {label}"
    negative_prompt: str = ""
    steps: int = 100
    guidance: float = 7.5
    scheduler: Literal["ddim", "unipc"] = "ddim"
    size: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or self.size < 8 or self.guidance < 1:
            raise InputError(
                "steps are at least 1, size at least 8 pixels, guidance at least 1 (none); got "
                f"{self.steps}, {self.size}, {self.guidance}"
            )
        if self.scheduler not in ("ddim", "unipc"):
            raise InputError(f"scheduler must be 'ddim' or 'unipc', got {self.scheduler!r}")

    def weights_id(self) -> str:
        folder = pipeline_folder(self.folder)
        files = [file for part in PARTS for file in sorted((folder / part).glob("*")) if file.is_file()]
        kept = [file for file in files if file.suffix in (".safetensors", ".json", ".txt")]
        return content_hash(*(f"{file.parent.name}/{file.name} {weights_hash(file)}" for file in kept))

    def used_files(self) -> list[UsedFile]:
        folder = pipeline_folder(self.folder)
        return [used_weights(file) for part in PARTS for file in (folder / part).glob("*.safetensors")]

    def fingerprint(self) -> str:
        fields = (self.device, self.precision, self.prompt, self.negative_prompt, self.scheduler)
        numbers = (self.steps, self.guidance, self.size)
        return content_hash(self.weights_id(), *fields, *map(str, numbers))

    def prompt_of(self, label: str) -> str:
        return self.prompt.format(label=label.replace("_", " "))

    @property
    def networks(self) -> Networks:
        return _loaded(str(pipeline_folder(self.folder)), str(self.place), self.precision)

    def new_scheduler(self, steps: int | None = None) -> Any:
        diffusers = require("diffusers", "drawing with a diffusion model")
        kind = diffusers.DDIMScheduler if self.scheduler == "ddim" else diffusers.UniPCMultistepScheduler
        config = read_json(pipeline_folder(self.folder) / "scheduler/scheduler_config.json")
        scheduler = kind.from_config(config)
        scheduler.set_timesteps(steps or self.steps)
        return scheduler

    def noise(self, seed: int, count: int = 1) -> Tensor:
        if not 0 <= seed <= MOST_SEED:
            raise InputError(f"a seed is a whole number from 0, got {seed}")
        torch, networks = self.torch, self.networks
        side = self.size // vae_factor(networks.vae)
        generator = torch.Generator().manual_seed(seed)
        shape = (count, networks.unet.config.in_channels, side, side)
        drawn: Tensor = torch.randn(shape, generator=generator, dtype=self.kind).to(self.place)
        return drawn

    def tokens(self, prompts: Sequence[str]) -> Tensor:
        tokenizer = self.networks.tokenizer
        ids: Tensor = tokenizer(
            list(prompts),
            padding="max_length",
            max_length=tokenizer.model_max_length,
            truncation=True,
            return_tensors="pt",
        ).input_ids
        return ids

    def texts(self, prompts: Sequence[str]) -> Tensor:
        read: Tensor = self.networks.text_encoder(self.tokens(prompts).to(self.place))[0]
        return read

    def predicted(self, latents: Tensor, t: Any, texts: Tensor) -> Tensor:
        noise: Tensor = self.networks.unet(latents, t, encoder_hidden_states=texts).sample
        return noise

    def guided(self, latents: Tensor, t: Any, without: Tensor, texts: Tensor, guidance: float) -> Tensor:
        """The same, led away from one text and towards the other."""
        if guidance == 1:
            return self.predicted(latents, t, texts)
        both = self.predicted(self.torch.cat([latents, latents]), t, self.torch.cat([without, texts]))
        away, towards = both.chunk(2)
        return away + guidance * (towards - away)


def vae_factor(vae: Any) -> int:
    """The pixels of a picture, each way, behind one latent."""
    return int(2 ** (len(vae.config.block_out_channels) - 1))


def pipeline_folder(place: Path | str) -> Path:
    """The folder of a pipeline; one on the Hub is downloaded once, into the Hub's own cache."""
    if isinstance(place, str) and place.startswith("hf://"):
        files = [f"{part}/*.{ending}" for part in PARTS for ending in ("safetensors", "json", "txt")]
        return hub_folder(place.removeprefix("hf://"), files)
    folder = Path(place).expanduser()
    lacking = [part for part in PARTS if not (folder / part).is_dir()]
    if lacking:
        raise InputError(
            f"{place} is not a Stable Diffusion pipeline: it has no folder {', '.join(lacking)}; give the "
            "folder that diffusers' save_pretrained writes, or hf://owner/name"
        )
    named = folder / "unet/config.json"
    kind = read_json(named).get("_class_name") if named.is_file() else None
    if kind != "UNet2DConditionModel":
        raise InputError(f"{place} is not a Stable Diffusion pipeline: its unet is a {kind}")
    if not list((folder / "unet").glob("*.safetensors")):
        raise InputError(
            f"{place}/unet has no .safetensors: other files of weights could run code; convert them"
        )
    return folder


@lru_cache(1)
def _loaded(folder: str, device: str, precision: str) -> Networks:
    torch = require("torch", "drawing with a diffusion model")
    diffusers = require("diffusers", "drawing with a diffusion model")
    transformers = require("transformers", "drawing with a diffusion model")
    kind = getattr(torch, precision)
    at = {"pretrained_model_name_or_path": folder, "local_files_only": True}
    bars = transformers.utils.logging
    bars.disable_progress_bar()  # a worker has no place for them
    try:
        networks = [
            diffusers.UNet2DConditionModel.from_pretrained(
                **at, subfolder="unet", use_safetensors=True, torch_dtype=kind, low_cpu_mem_usage=False
            ),
            diffusers.AutoencoderKL.from_pretrained(
                **at, subfolder="vae", use_safetensors=True, torch_dtype=kind, low_cpu_mem_usage=False
            ),
            transformers.CLIPTextModel.from_pretrained(
                **at, subfolder="text_encoder", use_safetensors=True, dtype=kind
            ),
        ]
        tokenizer = transformers.CLIPTokenizer.from_pretrained(**at, subfolder="tokenizer")
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"{folder} cannot be read as a Stable Diffusion pipeline: {error}") from error
    finally:
        bars.enable_progress_bar()
    if device.startswith("cuda"):
        networks[0].to(memory_format=torch.channels_last)
    unet, vae, text_encoder = (network.to(device).eval().requires_grad_(False) for network in networks)
    return Networks(unet, vae, text_encoder, tokenizer)


LEVELS = 1000


@dataclass(frozen=True, eq=False)
class Start:
    """One class and seed, denoised without a slider: as far as the switch, and to the end."""

    latents: Tensor
    scheduler: Any
    left: Sequence[Any]
    without: Tensor
    text: Tensor
    untouched: Image.Image


def start(diffusion: Diffusion, label: str, seed: int, switch: float) -> Start:
    """The shared part of all pictures of a class and seed; the last few are remembered."""
    if not 0 < switch <= 1:
        raise InputError(f"the noise at which sliders set in is above 0 and at most 1, got {switch}")
    return _start(diffusion, label, seed, switch)


@lru_cache(4)
def _start(diffusion: Diffusion, label: str, seed: int, switch: float) -> Start:
    with diffusion.working(f"a picture of {diffusion.size} pixels", "draw at a smaller size"):
        prompts = [diffusion.negative_prompt, diffusion.prompt_of(label)]
        without, text = diffusion.texts(prompts).unsqueeze(1)
        scheduler = diffusion.new_scheduler()
        latents = diffusion.noise(seed) * scheduler.init_noise_sigma
        steps = list(scheduler.timesteps)
        early = [t for t in steps if t > switch * LEVELS]
        latents = _denoised(diffusion, scheduler, latents, early, without, text)
        kept = copy.deepcopy(scheduler)
        end = _denoised(diffusion, scheduler, latents, steps[len(early) :], without, text)
        untouched = drawn(diffusion, end)[0]
    return Start(latents, kept, steps[len(early) :], without, text, untouched)


def slid(diffusion: Diffusion, begun: Start, slider: Slider, scales: Sequence[float]) -> list[Image.Image]:
    """The picture at each scale of a slider, all denoised in one batch; no scale is 0."""
    torch, count = diffusion.torch, len(scales)
    advice = f"draw fewer scales at once (batch={count} now), or at a smaller size"
    with diffusion.working(f"{count} pictures of {diffusion.size} pixels", advice):
        amounts = torch.tensor(scales, device=diffusion.place, dtype=torch.float32)
        scheduler = copy.deepcopy(begun.scheduler)  # what it remembers of one picture is that of all
        latents = begun.latents.repeat(count, 1, 1, 1)
        without, text = (embedding.repeat(count, 1, 1) for embedding in (begun.without, begun.text))
        with slider.to(diffusion.place, diffusion.kind).on(diffusion.networks.unet, amounts):
            latents = _denoised(diffusion, scheduler, latents, begun.left, without, text)
        return drawn(diffusion, latents)


def _denoised(
    diffusion: Diffusion, scheduler: Any, latents: Tensor, steps: Sequence[Any], without: Tensor, text: Tensor
) -> Tensor:
    for t in steps:
        read = scheduler.scale_model_input(latents, t)
        noise = diffusion.guided(read, t, without, text, diffusion.guidance)
        latents = scheduler.step(noise, t, latents, return_dict=False)[0]
    return latents


def drawn(diffusion: Diffusion, latents: Tensor) -> list[Image.Image]:
    """Pictures of latents, one after the other: decoding takes more memory than denoising."""
    vae = diffusion.networks.vae
    pictures = []
    for latent in latents.unsqueeze(1):
        unit = (vae.decode(latent / vae.config.scaling_factor).sample / 2 + 0.5).clamp(0, 1)
        pixels = (unit[0].permute(1, 2, 0).float().cpu().numpy() * 255).round().astype(np.uint8)
        pictures.append(Image.fromarray(pixels))
    return pictures
