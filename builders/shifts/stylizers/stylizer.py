"""The interface of a stylizer, and the arbitrary-style network that ships (Ghiasi et al. 2017) as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.parts import used_file
from builders.shifts.styles import network
from shiftdata.data.format.records import Material, UsedFile
from shiftdata.errors import InputError

FloatArray: TypeAlias = NDArray[np.float32]


class Stylizer(ABC):
    """A style picture becomes a code, once; a picture is then painted in any codes, each in its strength.

    A strength runs from the picture's own style (near 0) to the style of the code (1). Strength 0 is the
    untouched picture: networks repaint even a picture's own style.
    """

    #: Raise it whenever a stylizer paints other pixels.
    code_version: ClassVar[int]
    #: What messages and banks call it.
    name: ClassVar[str]
    #: The least side of a picture that it can read.
    min_side: ClassVar[int] = 16

    @property
    def threads(self) -> int:
        """Pictures that a process works on at once; 0 leaves that to the build."""
        return 0

    def tools(self, nuisances: Sequence[str]) -> tuple[Material, ...]:
        """Return the terms of its networks."""
        return ()

    @abstractmethod
    def codes_id(self) -> str:
        """Return a hash of what determines a code: the encoding network, and how it reads style pictures."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash of what determines a pixel."""

    @abstractmethod
    def encode(self, picture: Image.Image) -> FloatArray:
        """The code of a style picture, as a row of numbers."""

    @abstractmethod
    def paint(
        self, picture: Image.Image, codes: Sequence[FloatArray], strengths: Sequence[float]
    ) -> Iterable[Image.Image]:
        """The picture, RGB and large enough, painted in each code; no strength is 0."""

    def stylize(
        self, picture: Image.Image, codes: Sequence[FloatArray], strengths: Sequence[float]
    ) -> list[Image.Image]:
        """The picture in the style of each code, in its strength from 0 (untouched) to 1.

        What a call is given is one batch: of one picture, so that pictures may differ in size, and so that
        no pixel depends on how a build is cut into blocks.
        """
        for strength in strengths:
            if not 0 <= strength <= 1:
                raise InputError(f"strength must be between 0 and 1, got {strength}")
        if min(picture.size) < self.min_side:
            raise InputError(
                f"cannot stylize a picture of {picture.width} x {picture.height} pixels; "
                f"each side needs at least {self.min_side}: enlarge it first"
            )
        plain = picture.convert("RGB")
        wanted = [at for at, strength in enumerate(strengths) if strength]
        painted = self.paint(plain, [codes[at] for at in wanted], [strengths[at] for at in wanted])
        by_place = dict(zip(wanted, painted, strict=True)) if wanted else {}
        return [by_place.get(at, plain) for at in range(len(strengths))]


@dataclass(frozen=True)
class Arbitrary(Stylizer):
    """Needs no weights but those that ship, and no GPU; a code is 100 numbers."""

    code_version: ClassVar[int] = 1
    name: ClassVar[str] = "arbitrary"
    min_side: ClassVar[int] = network.MIN_SIDE

    def tools(self, nuisances: Sequence[str]) -> tuple[Material, ...]:
        return (network.terms(nuisances),)

    def codes_id(self) -> str:
        return network.fingerprint()

    def fingerprint(self) -> str:
        return network.fingerprint()

    def used_files(self) -> list[UsedFile]:
        return [*map(used_file, network.GRAPHS)]

    def encode(self, picture: Image.Image) -> FloatArray:
        return network.code(picture)

    def paint(
        self, picture: Image.Image, codes: Sequence[FloatArray], strengths: Sequence[float]
    ) -> Iterator[Image.Image]:
        features = network.features(picture)
        own = network.code(picture) if any(strength < 1 for strength in strengths) else None
        for code, strength in zip(codes, strengths, strict=True):
            mixed = code if own is None or strength == 1 else network.mix(own, code, strength)
            yield network.paint(features, mixed, picture.size)
