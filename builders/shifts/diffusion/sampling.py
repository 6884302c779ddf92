"""Draw pictures of one class and seed along sliders: what comes before a slider sets in is computed once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from builders.shifts.diffusion.pipeline import Diffusion
from builders.shifts.diffusion.slider import Slider
from shiftdata.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

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
        without, text = (one.repeat(count, 1, 1) for one in (begun.without, begun.text))
        with slider.to(diffusion.place, diffusion.kind).on(diffusion.networks.unet, amounts):
            latents = _denoised(diffusion, scheduler, latents, begun.left, without, text)
        return drawn(diffusion, latents)


def _denoised(
    diffusion: Diffusion, scheduler: Any, latents: Tensor, steps: Sequence[Any], without: Tensor, text: Tensor
) -> Tensor:
    for t in steps:
        read = scheduler.scale_model_input(latents, t)
        said = diffusion.guided(read, t, without, text, diffusion.guidance)
        latents = scheduler.step(said, t, latents, return_dict=False)[0]
    return latents


def drawn(diffusion: Diffusion, latents: Tensor) -> list[Image.Image]:
    """Pictures of latents, one after the other: decoding takes more memory than denoising."""
    vae = diffusion.networks.vae
    pictures = []
    for one in latents.unsqueeze(1):
        unit = (vae.decode(one / vae.config.scaling_factor).sample / 2 + 0.5).clamp(0, 1)
        pixels = (unit[0].permute(1, 2, 0).float().cpu().numpy() * 255).round().astype(np.uint8)
        pictures.append(Image.fromarray(pixels))
    return pictures
