"""Other views of pictures, as tensor code: weak (shift, flip) and strong (Cutout and RandAugment besides).

Pictures are uint8, n x height x width x 3; draws come from the generator alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, conv2d, grid_sample

Pixels: TypeAlias = NDArray[np.uint8]
#: An operation on pictures n x 3 x height x width, from 0 to 1, with a strength from -1 to 1 for each.
Operation: TypeAlias = Callable[[Tensor, Tensor], Tensor]

GREY = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
CUT = 0.5  # most of a picture's side that Cutout covers


def shifted(x: Any, most: int, generator: np.random.Generator) -> Any:
    """Pictures, each moved by up to `most` pixels in each direction; the border is repeated."""
    count, height, width = x.shape[:3]
    down, right = generator.integers(-most, most + 1, (2, count, 1))
    rows = np.clip(np.arange(height) + down, 0, height - 1)
    columns = np.clip(np.arange(width) + right, 0, width - 1)
    return x[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def weak(x: Pixels, generator: np.random.Generator, *, shift: int = 3, flip: bool = False) -> Pixels:
    """Pictures moved by up to `shift` pixels and, where `flip`, every other one mirrored on average."""
    made: Pixels = shifted(x, shift, generator)
    if flip:
        mirrored = generator.random(len(made)) < 0.5
        made[mirrored] = made[mirrored, :, ::-1]
    return made


def strong(
    x: Pixels, generator: np.random.Generator, *, shift: int = 3, flip: bool = False, operations: int = 2
) -> Pixels:
    """A weak view, `operations` of RandAugment (Cubuk et al., 2020), then Cutout (DeVries & Taylor, 2017).

    Each picture gets operations of its own, each with a strength drawn uniformly, in either direction.
    """
    pictures = torch.from_numpy(weak(x, generator, shift=shift, flip=flip)).permute(0, 3, 1, 2).float() / 255
    names = list(OPERATIONS)
    for _ in range(operations):
        drawn = generator.integers(len(names), size=len(x))
        strength = torch.from_numpy(generator.uniform(-1, 1, len(x))).float()
        for number in np.unique(drawn):
            mine = torch.from_numpy(np.flatnonzero(drawn == number))
            pictures[mine] = OPERATIONS[names[number]](pictures[mine], strength[mine]).clamp(0, 1)
    pictures = cutout(pictures, generator)
    made: Pixels = (pictures * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    return made


def cutout(x: Tensor, generator: np.random.Generator, most: float = CUT) -> Tensor:
    """A grey square on each picture, of up to `most` of its side, anywhere; parts of it may lie outside."""
    count, _, height, width = x.shape
    side = generator.uniform(0, most, count)
    centre = generator.random((2, count))
    inside = []
    for size, at in ((height, centre[0]), (width, centre[1])):
        places = (np.arange(size) + 0.5) / size
        inside.append(np.abs(places[None] - at[:, None]) <= side[:, None] / 2)
    mask = torch.from_numpy(inside[0][:, :, None] & inside[1][:, None, :]).unsqueeze(1)
    return torch.where(mask, torch.tensor(0.5), x)


def _per_picture(strength: Tensor) -> Tensor:
    return strength.view(-1, 1, 1, 1)


def _blend(x: Tensor, other: Tensor, strength: Tensor, most: float = 0.9) -> Tensor:
    """From `other` towards the picture and beyond: at strength 0 the picture itself."""
    return other + (x - other) * (1 + most * _per_picture(strength))


def _grey(x: Tensor) -> Tensor:
    return (x * GREY).sum(1, keepdim=True)


def brightness(x: Tensor, strength: Tensor) -> Tensor:
    """Darker or lighter."""
    return _blend(x, torch.zeros_like(x), strength)


def colour(x: Tensor, strength: Tensor) -> Tensor:
    """Less or more colourful."""
    return _blend(x, _grey(x), strength)


def contrast(x: Tensor, strength: Tensor) -> Tensor:
    """Less or more contrast, about the mean of the picture's grey."""
    return _blend(x, _grey(x).mean((2, 3), keepdim=True), strength)


def sharpness(x: Tensor, strength: Tensor) -> Tensor:
    """Blurred or sharpened; the outermost pixels stay."""
    kernel = torch.ones(3, 1, 3, 3)
    kernel[:, :, 1, 1] = 5
    blurred = x.clone()
    blurred[:, :, 1:-1, 1:-1] = conv2d(x, kernel / 13, groups=3)
    return _blend(x, blurred, strength)


def autocontrast(x: Tensor, strength: Tensor) -> Tensor:
    """Each channel from 0 to 1; strength has no say."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).clamp(min=1e-6), x)


def equalised(x: Tensor, strength: Tensor) -> Tensor:
    """Each channel's values evenly spread, as by Pillow's equalize; strength has no say."""
    channels = (x * 255).round().long().flatten(2).flatten(0, 1)
    counts = torch.zeros(len(channels), 256, dtype=torch.long).scatter_add_(
        1, channels, torch.ones_like(channels)
    )
    last = 255 - (counts.flip(1) > 0).long().argmax(1, keepdim=True)
    step = (channels.shape[1] - counts.gather(1, last)) // 255
    table = ((counts.cumsum(1) - counts + step // 2) // step.clamp(min=1)).clamp(0, 255)
    made = torch.where(step > 0, table.gather(1, channels), channels)
    return made.view(x.shape).float() / 255


def posterised(x: Tensor, strength: Tensor) -> Tensor:
    """Only 4 to 8 bits of each value."""
    dropped = 2 ** (4 * _per_picture(strength).abs()).round().long()
    values = (x * 255).round().long()
    return (values - values % dropped).float() / 255


def solarised(x: Tensor, strength: Tensor) -> Tensor:
    """Values from a threshold on inverted; at strength 0 there is none."""
    return torch.where(x >= 1 - _per_picture(strength).abs(), 1 - x, x).where(_per_picture(strength) != 0, x)


def _moved(x: Tensor, rows: list[list[Tensor]]) -> Tensor:
    """Each picture read at places that an affine map of its own says, its border repeated."""
    theta = torch.stack([torch.stack(row, 1) for row in rows], 1)
    grid = affine_grid(theta, list(x.shape), align_corners=False)
    return grid_sample(x, grid, padding_mode="border", align_corners=False)


def rotated(x: Tensor, strength: Tensor) -> Tensor:
    """By up to 30 degrees."""
    angle, zero = strength * math.pi / 6, torch.zeros_like(strength)
    return _moved(x, [[angle.cos(), -angle.sin(), zero], [angle.sin(), angle.cos(), zero]])


def sheared(x: Tensor, strength: Tensor) -> Tensor:
    """To the side, by up to .3 of the height."""
    one, zero = torch.ones_like(strength), torch.zeros_like(strength)
    return _moved(x, [[one, 0.3 * strength, zero], [zero, one, zero]])


def translated(x: Tensor, strength: Tensor) -> Tensor:
    """To the side, by up to .3 of the width."""
    one, zero = torch.ones_like(strength), torch.zeros_like(strength)
    return _moved(x, [[one, zero, 0.6 * strength], [zero, one, zero]])


def _upright(operation: Operation) -> Operation:
    """The same along the other axis."""
    return lambda x, strength: operation(x.transpose(2, 3), strength).transpose(2, 3)


#: What RandAugment draws from.
OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "identity": lambda x, strength: x,
        "autocontrast": autocontrast,
        "brightness": brightness,
        "colour": colour,
        "contrast": contrast,
        "equalised": equalised,
        "posterised": posterised,
        "rotated": rotated,
        "sharpness": sharpness,
        "sheared": sheared,
        "sheared down": _upright(sheared),
        "solarised": solarised,
        "translated": translated,
        "translated down": _upright(translated),
    }
)
