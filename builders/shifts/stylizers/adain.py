"""Adaptive instance normalisation (Huang and Belongie 2017): features take a style's mean and deviation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image

from builders.shifts.devices import OnDevice
from builders.shifts.stylizers.stylizer import FloatArray, Stylizer
from builders.shifts.stylizers.vgg import Decoder, Vgg, layout_of, shown
from builders.shifts.stylizers.weights import Place, used_weights, weights_hash
from shiftdata.data.format.records import Material, UsedFile
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

if TYPE_CHECKING:
    from torch import Tensor

LAYER = "relu4_1"
EPSILON = {"vgg19-normalised": 1e-5}  # added to the variance; the others add 1e-6 to the deviation
TINY = 1e-6


@dataclass(frozen=True, kw_only=True)
class AdaIN(OnDevice, Stylizer):
    """AdaIN at relu4_1, in the public `variant` that the weights are of; codes and weights of two do not mix.

    "vgg19": torchvision's VGG-19 and what Stylized Meta-Album was made with. "vgg19-normalised": the
    normalised VGG-19 of the method's authors. Files are named by path or as `hf://owner/name/file`. A style
    picture is encoded at `style_side` pixels, the shorter side; None keeps its size, as both public codes do
    where they are given none. `batch` is how many styles are painted at once, which pays on a GPU alone.

    A code is the mean and the deviation of each channel: for VGG-19, 1,024 numbers. Strength goes from
    the picture's own mean and deviation to these, which is the alpha of the paper.
    """

    code_version: ClassVar[int] = 1
    name: ClassVar[str] = "adain"

    encoder: Place
    decoder: Place
    variant: str = "vgg19"
    style_side: int | None = 256
    batch: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        layout_of(self.variant)
        if self.batch < 1:
            raise InputError(f"batch must be at least 1, got {self.batch}")
        if self.style_side is not None and self.style_side < self.min_side:
            raise InputError(f"style_side must be at least {self.min_side}, got {self.style_side}")

    def tools(self, nuisances: Sequence[str]) -> tuple[Material, ...]:
        how = f"An encoder, {self.variant}, and a decoder, which paint in styles."
        return (self.terms(how, nuisances, [weights_hash(self.encoder), weights_hash(self.decoder)]),)

    def codes_id(self) -> str:
        return content_hash("adain", self.variant, str(self.style_side), weights_hash(self.encoder))

    def fingerprint(self) -> str:
        settings = (self.code_version, self.device, self.precision, self.batch)
        return content_hash(*map(str, settings), self.codes_id(), weights_hash(self.decoder))

    def used_files(self) -> list[UsedFile]:
        return [used_weights(self.encoder), used_weights(self.decoder)]

    @property
    def threads(self) -> int:
        """Three with a GPU: other pictures are read and stored meanwhile."""
        return 3 if self.device != "cpu" else 0

    @cached_property
    def _vgg(self) -> Vgg:
        return Vgg(self.encoder, self.variant, LAYER, self.place, self.kind)

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.decoder, self._vgg)

    def encode(self, picture: Image.Image) -> FloatArray:
        with self._painting(picture.size):
            features = self._vgg(self._vgg.read(at_side(picture, self.style_side)), [LAYER])[LAYER]
            code: FloatArray = self.torch.cat(moments(features, self.variant), 1).flatten().cpu().numpy()
        return code

    def paint(
        self, picture: Image.Image, codes: Sequence[FloatArray], strengths: Sequence[float]
    ) -> Iterator[Image.Image]:
        with self._painting(picture.size):
            features = self._vgg(self._vgg.read(picture), [LAYER])[LAYER]
            mean, deviation = moments(features, self.variant)
            plain = (features.float() - mean) / deviation
        for start in range(0, len(codes), self.batch):
            batch = slice(start, start + self.batch)
            with self._painting(picture.size):
                wanted, amount = self._columns(codes[batch], strengths[batch])
                to_mean, to_deviation = wanted.chunk(2, 1)
                mixed = plain * (deviation + amount * (to_deviation - deviation))
                mixed = mixed + mean + amount * (to_mean - mean)
                decoded = self._decoder(mixed.to(self.kind))
                pictures = list(shown(decoded, self._vgg.layout.range, picture.size))
            yield from pictures

    def _painting(self, size: tuple[int, int]) -> AbstractContextManager[None]:
        return self.working(
            f"a picture of {size[0]} x {size[1]} pixels",
            f"paint fewer styles at once (batch={self.batch} now), or smaller pictures (CropSquare, Resize "
            "in prepare)",
        )

    def _columns(self, codes: Sequence[FloatArray], strengths: Sequence[float]) -> tuple[Tensor, Tensor]:
        width = 2 * self._vgg.widths[-1]
        if any(len(code) != width for code in codes):
            lengths = sorted({len(code) for code in codes})
            raise InputError(
                f"a code of this encoder has {width} numbers, got {lengths}: encode the styles again"
            )
        tensor: Any = self.torch.tensor
        of = {"device": self.place, "dtype": self.torch.float32}
        return tensor(np.stack(codes), **of)[..., None, None], tensor(strengths, **of).view(-1, 1, 1, 1)


def moments(features: Tensor, variant: str) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel over its places, by n - 1, as the variant keeps them from 0."""
    features = features.float()
    mean = features.mean((2, 3), keepdim=True)
    variance = features.var((2, 3), keepdim=True)
    if variant in EPSILON:
        return mean, (variance + EPSILON[variant]).sqrt()
    return mean, variance.sqrt() + TINY


def at_side(picture: Image.Image, side: int | None) -> Image.Image:
    """A picture resized to a shorter side of `side` pixels."""
    side = side or max(AdaIN.min_side, min(picture.size))
    if min(picture.size) == side:
        return picture
    scale = side / min(picture.size)
    size = (max(side, round(picture.width * scale)), max(side, round(picture.height * scale)))
    return picture.convert("RGB").resize(size, Image.Resampling.BICUBIC)
