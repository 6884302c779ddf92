"""Small VGGs with random weights, in the layouts and under the names that were published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from builders.shifts.stylizers.vgg import BLOCKS, LAYOUTS, decoder_plan

WIDTHS = (4, 6, 8, 10, 10)


def kernels(reads: int, gives: int, side: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    scale = (2 / (reads * side * side)) ** 0.5
    weight = scale * torch.randn(gives, reads, side, side, generator=draw)
    return weight, 0.1 * torch.randn(gives, generator=draw)


def encoder_shapes(variant: str, widths: Sequence[int] = WIDTHS) -> list[tuple[str, int, int, int]]:
    shapes, reads = [], 3
    if LAYOUTS[variant].mixes_colours:
        shapes.append(("colours", 3, 3, 1))
    for block, count in enumerate(BLOCKS):
        for number in range(count):
            shapes.append((f"conv{block + 1}_{number + 1}", reads, widths[block], 3))
            reads = widths[block]
    return shapes


def encoder_state(variant: str, seed: int = 0, widths: Sequence[int] = WIDTHS) -> dict[str, Tensor]:
    """Under torchvision's names: the place of each convolution among its rectifiers and poolings."""
    draw, state, at = torch.Generator().manual_seed(seed), {}, 0
    for name, reads, gives, side in encoder_shapes(variant, widths):
        if name.endswith("_1") and name != "conv1_1":
            at += 1  # a pooling
        weight, bias = kernels(reads, gives, side, draw)
        state |= {f"features.{at}.weight": weight, f"features.{at}.bias": bias}
        at += 2
    return state


def decoder_state(seed: int = 1, widths: Sequence[int] = WIDTHS[:4]) -> dict[str, Tensor]:
    """Under the names of a plain sequence: padding, convolution, rectifier, and a doubling."""
    draw, state, at = torch.Generator().manual_seed(seed), {}, 1
    for step in decoder_plan(widths):
        weight, bias = kernels(step.reads, step.gives, 3, draw)
        state |= {f"{at}.weight": weight, f"{at}.bias": bias}
        at += 4 if step.doubles else 3
    return state


def written(folder: Path, variant: str, seed: int = 0) -> tuple[Path, Path]:
    """An encoder and a decoder as files."""
    encoder, decoder = folder / f"{variant}-{seed}.safetensors", folder / f"{variant}-4-{seed}.pth"
    save_file(encoder_state(variant, seed), encoder)
    torch.save(decoder_state(seed + 1), decoder)
    return encoder, decoder


def picture(width: int = 32, height: int = 32, seed: int = 0) -> Image.Image:
    """Smooth colours with some noise."""
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    pixels = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), float)
    return Image.fromarray((pixels + draw.normal(0, 12, pixels.shape)).clip(0, 255).astype(np.uint8))


def colours_written(folder: Path) -> tuple[Path, Path]:
    """A VGG-19 and a decoder that only pass colours on, what is above the mean and what is below it apart."""
    eye = torch.zeros(6, 6, 3, 3)
    eye[range(6), range(6), 1, 1] = 1
    first, last = torch.zeros(6, 3, 3, 3), torch.zeros(3, 6, 3, 3)
    for at in range(3):
        first[at, at, 1, 1] = last[at, at, 1, 1] = 1
        first[3 + at, at, 1, 1] = last[at, 3 + at, 1, 1] = -1
    encoder = {f"{at:02}.weight": first if at == 0 else eye.clone() for at in range(16)}
    decoder = {f"{at:02}.weight": last if at == 8 else eye.clone() for at in range(9)}
    save_file(encoder, folder / "colours-encoder.safetensors")
    save_file(decoder, folder / "colours-decoder.safetensors")
    return folder / "colours-encoder.safetensors", folder / "colours-decoder.safetensors"
