"""Steps that bring every picture to one size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from PIL import Image

from builders.sample import Sample


@dataclass(frozen=True, kw_only=True)
class OnGround:
    """Compose each picture on a plain ground: centred, scaled to fit, with a margin (a share of the side)."""

    code_version: ClassVar[int] = 1

    size: int
    ground: tuple[int, int, int] = (244, 241, 234)
    margin: float = 0

    @property
    def inner(self) -> int:
        return self.size - 2 * round(self.size * self.margin)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            yield replace(sample, example=self.compose(sample.image))

    def compose(self, picture: Image.Image) -> Image.Image:
        scale = self.inner / max(picture.size)
        fitted = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        cutout = picture.convert("RGBA")
        if cutout.size != fitted:
            # Premultiplied, so that the colour of fully transparent pixels does not bleed into the edge.
            cutout = cutout.convert("RGBa").resize(fitted, Image.Resampling.LANCZOS).convert("RGBA")
        canvas = Image.new("RGBA", (self.size, self.size), (*self.ground, 255))
        canvas.alpha_composite(cutout, ((self.size - fitted[0]) // 2, (self.size - fitted[1]) // 2))
        return canvas.convert("RGB")
