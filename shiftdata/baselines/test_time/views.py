"""Random views of batches of pictures, drawn by torch on their device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from shiftdata.errors import InputError


@dataclass(frozen=True)
class RandomView:
    """Turned by up to `angle` degrees, scaled and moved by shares of the side, with other light and noise.

    The parts of CoTTA's augmentation that mean the same in any range of pixels; letters are not mirrored
    unless `flip` is given. Light and noise are in deviations of a picture's pixels.
    """

    angle: float = 15.0
    scale: float = 0.1
    shift: float = 1 / 16
    light: float = 0.3
    noise: float = 0.02
    flip: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        if x.ndim != 4:
            raise InputError(f"views are of pictures, and a batch here has the shape {tuple(x.shape)}")
        draws = 2 * torch.rand(6, len(x), dtype=x.dtype, device=x.device) - 1
        angle, scale = draws[0] * self.angle * math.pi / 180, 1 + draws[1] * self.scale
        cos, sin, sign = scale * angle.cos(), scale * angle.sin(), torch.ones_like(angle)
        if self.flip:
            sign = torch.where(torch.rand_like(angle) < 0.5, -1, 1)
        right, down = 2 * self.shift * draws[2:4]  # a side is 2 long
        theta = torch.stack([sign * cos, -sin, right, sign * sin, cos, down], 1).view(-1, 2, 3)
        moved = grid_sample(x, affine_grid(theta, list(x.shape), False), "bilinear", "border", False)
        centre, deviation = moved.mean((1, 2, 3), keepdim=True), moved.std((1, 2, 3), keepdim=True)
        contrast, brightness = (1 + self.light * draws[4:6]).view(2, -1, 1, 1, 1)
        lit = centre + contrast * (moved - centre) + (brightness - 1) * deviation
        noisy: Tensor = lit + self.noise * deviation * torch.randn_like(x)
        return noisy
