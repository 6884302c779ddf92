"""Sliders: low-rank adapters of a denoiser, each row of a batch at a scale of its own.

Their files have the names that LoRA files of Stable Diffusion have (`lora_unet_<path>.lora_down.weight`), so
that those of CNS-Bench's authors are read as they are, and others can read ours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builders.albums.folder import slug
from builders.shifts.stylizers.weights import read_weights
from shiftdata.errors import InputError
from shiftdata.files import whole_file

if TYPE_CHECKING:
    from torch import Tensor

#: The parts of a denoiser whose layers are adapted, but for those that read the text or the time.
ADAPTED = ("Attention", "ResnetBlock2D", "Downsample2D", "Upsample2D", "DownBlock2D", "UpBlock2D")
LEFT_ALONE = ("attn2", "time_embed")
PREFIX = "lora_unet_"
DOWN, UP, ALPHA = ".lora_down.weight", ".lora_up.weight", ".alpha"


@dataclass(frozen=True, eq=False)
class Slider:
    """By the path of a layer, the two factors of what is added to it: up(down(x)) scale alpha / rank."""

    down: Mapping[str, Tensor]
    up: Mapping[str, Tensor]
    alpha: Mapping[str, float]

    @classmethod
    def new(cls, unet: Any, generator: Any, *, rank: int = 4, alpha: float = 1.0) -> Slider:
        """A slider that does nothing yet: what goes up is 0."""
        import torch

        down, up, alphas = {}, {}, {}
        for name, layer in adapted_layers(unet).items():
            shape = layer.weight.shape
            few = min(rank, *shape[:2]) if layer.weight.ndim == 4 else rank
            bound = math.sqrt(3 / math.prod(shape[1:]))  # Kaiming's, of a = 1
            first = torch.rand((few, *shape[1:]), generator=generator) * 2 - 1
            down[name] = first * bound
            up[name] = torch.zeros((shape[0], few, *([1, 1] if layer.weight.ndim == 4 else [])))
            alphas[name] = alpha
        return cls(down, up, alphas)

    @property
    def parameters(self) -> list[Tensor]:
        return [*self.down.values(), *self.up.values()]

    def to(self, device: Any, kind: Any) -> Slider:
        down, up = (
            {name: one.to(device, kind) for name, one in part.items()} for part in (self.down, self.up)
        )
        return Slider(down, up, self.alpha)

    @contextmanager
    def on(self, unet: Any, scales: Tensor) -> Iterator[None]:
        """Within it, each row of a batch is denoised at its scale; a batch of twice as many repeats them."""
        layers = adapted_layers(unet)
        if missing := sorted(set(self.down) - set(layers)):
            raise InputError(
                f"the slider is of another denoiser: it adapts {missing[0]} and {len(missing) - 1} other "
                "layers that this one lacks; use sliders with the pipeline that they were trained on"
            )
        hooks = []
        try:
            for name in self.down:
                self._check(name, layers[name])
                hooks.append(layers[name].register_forward_hook(self._hook(name, layers[name], scales)))
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _check(self, name: str, layer: Any) -> None:
        if self.down[name].shape[1:] != layer.weight.shape[1:] or len(self.up[name]) != len(layer.weight):
            raise InputError(
                f"the slider is of another denoiser: at {name} it reads {tuple(self.down[name].shape)} "
                f"and gives {tuple(self.up[name].shape)}; the layer's weight is {tuple(layer.weight.shape)}"
            )

    def _hook(self, name: str, layer: Any, scales: Tensor) -> Any:
        from torch.nn import functional

        down, up = self.down[name], self.up[name]
        share = self.alpha[name] / len(down)

        def add(_: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
            x = inputs[0]
            if down.ndim == 4:
                low = functional.conv2d(x, down, stride=layer.stride, padding=layer.padding)
                more = functional.conv2d(low, up)
            else:
                more = functional.linear(functional.linear(x, down), up)
            amounts = scales.repeat(len(x) // len(scales)).view(-1, *[1] * (x.ndim - 1))
            return output + more * (amounts * share).to(more.dtype)

        return add

    def write(self, path: Path, metadata: Mapping[str, Any]) -> None:
        import torch
        from safetensors.torch import save_file

        state: dict[str, Tensor] = {}
        for name in self.down:
            key = PREFIX + name.replace(".", "_")
            state[key + DOWN] = self.down[name].detach().float().cpu().contiguous()
            state[key + UP] = self.up[name].detach().float().cpu().contiguous()
            state[key + ALPHA] = torch.tensor(self.alpha[name])
        with whole_file(path) as temporary:
            # One entry: safetensors writes several in an order of chance.
            save_file(state, temporary, {"about": json.dumps(metadata, sort_keys=True)})


def adapted_layers(unet: Any) -> dict[str, Any]:
    """The linear and convolutional layers that a slider adapts, by path: CNS-Bench's "noxattn"."""
    found: dict[str, Any] = {}
    for name, module in unet.named_modules():
        if type(module).__name__ not in ADAPTED or any(part in name for part in LEFT_ALONE):
            continue
        for below, layer in module.named_modules():
            if type(layer).__name__ in ("Linear", "Conv2d"):
                found.setdefault(f"{name}.{below}", layer)
    return found


def read_slider(path: Path, unet: Any) -> Slider:
    """A slider for a denoiser, from our files or those of CNS-Bench's authors (.pt)."""
    state = read_weights(path)
    paths = {PREFIX + name.replace(".", "_"): name for name in adapted_layers(unet)}
    keys = [key.removesuffix(DOWN) for key in state if key.endswith(DOWN)]
    if not keys:
        raise InputError(f"{path} is not a slider: it has no weight that ends in {DOWN}")
    unknown = [key for key in keys if key not in paths]
    if unknown:
        raise InputError(
            f"{path} is of another denoiser: it adapts {unknown[0]} and {len(unknown) - 1} other layers that "
            "this one lacks; use sliders with the pipeline that they were trained on"
        )
    down = {paths[key]: state[key + DOWN].float() for key in keys}
    up = {paths[key]: state[key + UP].float() for key in keys}
    alpha = {
        paths[key]: float(state[key + ALPHA]) if key + ALPHA in state else float(len(state[key + DOWN]))
        for key in keys
    }
    return Slider(down, up, alpha)


def slider_file(folder: Path, shift: str, label: str) -> Path:
    """Return the file of the slider of a shift and a class: ours, or a .pt that was put there."""
    ours = folder / slug(shift) / f"{slug(label)}.safetensors"
    theirs = ours.with_suffix(".pt")
    return theirs if theirs.is_file() and not ours.is_file() else ours
