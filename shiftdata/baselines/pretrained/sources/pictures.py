"""A model's own preprocessing of pictures: the loader resizes and crops, `prepare` scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from shiftdata.baselines.models import Scaled, n_features_of
from shiftdata.baselines.pretrained.model import Encoder, Pretrained
from shiftdata.data.loading.batches.decode import CenterCrop
from shiftdata.errors import InputError, not_found

#: Pillow's filters by the names that libraries use.
RESAMPLING: Mapping[str, int] = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4}
Side: TypeAlias = int | tuple[int, int]


@dataclass(frozen=True)
class Pictures:
    """Resize to `resize` (the shorter side, or height and width), cut `size`, then (x / 255 - mean) / std."""

    size: tuple[int, int]
    resize: Side
    resampling: int = RESAMPLING["bicubic"]
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        sides = (*self.size, *([self.resize] if isinstance(self.resize, int) else self.resize))
        if min(sides) < 1 or not len(self.mean) == len(self.std) == 3 or min(self.std) <= 0:
            raise InputError(f"{self}: sides are 1 or more, mean and std three numbers, and std above 0")

    @property
    def crop(self) -> CenterCrop:
        return CenterCrop(self.size, self.resize, self.resampling)

    @property
    def prepare(self) -> Scaled:
        mean, std = (255 * torch.tensor(value).view(3, 1, 1) for value in (self.mean, self.std))
        return Scaled(mean, 1 / std)

    def model(
        self, name: str, encoder: Encoder, weights: str, about: Mapping[str, Any], **fields: Any
    ) -> Pretrained:
        """Return a model that reads such pictures, whose record has them, and `about`."""
        prepare = fields.pop("prepare", self.prepare)
        sample = prepare(torch.zeros(2, 3, *self.size, dtype=torch.uint8))
        about = {"pictures": str(self.crop), "mean": [*self.mean], "std": [*self.std], **about}
        given = {"n_features": n_features_of(name, encoder, sample), "prepare": prepare, "size": self.crop}
        return Pretrained(name=name, encoder=encoder, weights=weights, about=about, **given, **fields)

    def at(self, side: int | None) -> Pictures:
        """Return the same for another size, in the same proportion of the cut to the whole."""
        if side is None or (side, side) == self.size:
            return self
        if side < 1:
            raise InputError(f"size={side}: give the pixels of a side, 1 or more")
        factor = side / min(self.size)
        if isinstance(self.resize, int):
            return replace(self, size=(side, side), resize=round(self.resize * factor))
        height, width = (round(each * factor) for each in self.resize)
        return replace(self, size=(side, side), resize=(height, width))


def resampling_of(name: str) -> int:
    """Return Pillow's number of a filter."""
    if name not in RESAMPLING:
        raise not_found("interpolation", name, RESAMPLING)
    return RESAMPLING[name]


def three(values: Sequence[float] | float) -> tuple[float, ...]:
    """Return a number for each colour."""
    return (float(values),) * 3 if isinstance(values, int | float) else tuple(map(float, values))
