"""Checks that steps share: one strength, and pictures that can be shifted."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from builders.sample import BadItem, Sample
from builders.shifts.drawing.pixels import SMALLEST
from shiftdata.errors import InputError


def framed(sample: Sample) -> Image.Image:
    """The picture of a sample; refused where `prepare` should have framed it, left out where it is tiny."""
    if sample.image.mode != "RGB":
        raise InputError(
            f"the picture of {sample.key} is {sample.image.mode}, not RGB: put a step into the recipe's "
            "prepare that makes it so, such as CropSquare, Pad or OnGround"
        )
    if min(sample.image.size) < SMALLEST:
        width, height = sample.image.size
        raise BadItem(f"fewer than {SMALLEST} pixels wide or high ({width} x {height})")
    return sample.image


@dataclass(frozen=True, kw_only=True)
class OneStrength:
    """Base of steps that draw by seed, content and nuisance, in one strength from 0 (none) to 1 (full)."""

    seed: int
    dataset: str
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength must be between 0 and 1, got {self.strength}")

    @property
    def severities(self) -> tuple[float, ...]:
        return (self.strength,)
