"""The arbitrary-style network that ships (Ghiasi et al. 2017), as a stylizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from PIL import Image

from builders.shifts.styles import network
from builders.shifts.stylizers.stylizer import FloatArray, Stylizer


@dataclass(frozen=True)
class Arbitrary(Stylizer):
    """Needs no weights but those that ship, and no GPU; a code is 100 numbers."""

    code_version: ClassVar[int] = 1
    name: ClassVar[str] = "arbitrary"
    min_side: ClassVar[int] = network.MIN_SIDE

    def codes_id(self) -> str:
        return network.fingerprint()

    def fingerprint(self) -> str:
        return network.fingerprint()

    def encode(self, picture: Image.Image) -> FloatArray:
        return network.code(picture)

    def paint(
        self, picture: Image.Image, codes: Sequence[FloatArray], strengths: Sequence[float]
    ) -> Iterator[Image.Image]:
        features = network.features(picture)
        own = network.code(picture) if any(one < 1 for one in strengths) else None
        for code, strength in zip(codes, strengths, strict=True):
            mixed = code if own is None or strength == 1 else network.mix(own, code, strength)
            yield network.paint(features, mixed, picture.size)
