"""What describes a style picture to the filter: the means of a VGG's activations, or a style code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from builders.shifts.styles.network import STYLE_SIDE
from builders.shifts.stylizers import Arbitrary
from builders.shifts.stylizers.vgg import Vgg, middle_square
from builders.shifts.stylizers.weights import Place, weights_hash
from shiftdata.extras import require
from shiftdata.stable import content_hash


class Encoder(Protocol):
    """Style pictures as rows of numbers."""

    @property
    def name(self) -> str:
        """What the report calls it."""

    def fingerprint(self) -> str:
        """Return a hash that changes whenever an embedding could."""

    def mean_activations(self, picture: Image.Image, /) -> NDArray[np.float32]:
        """The row of a picture."""


@dataclass(frozen=True)
class Codes:
    """The code of the stylizer that ships: needs no other weights."""

    name: str = "style codes of the stylizer that ships"

    def fingerprint(self) -> str:
        return Arbitrary().codes_id()

    def mean_activations(self, picture: Image.Image) -> NDArray[np.float32]:
        return Arbitrary().encode(picture)


class VggMeans:
    """The mean over places of conv1_1, conv2_1, conv3_1, conv4_1 and conv5_1 of a VGG: 1,472 numbers.

    It reads the middle square at 256 pixels, as the stylizer that ships does.
    """

    def __init__(self, weights: Place, layout: str) -> None:
        self.name = f"mean activations of {layout}"
        self.weights, self.layout = weights, layout
        self._vgg: Vgg | None = None

    def fingerprint(self) -> str:
        return content_hash(self.layout, weights_hash(self.weights))

    def mean_activations(self, picture: Image.Image) -> NDArray[np.float32]:
        torch = require("torch", "the features of a VGG")
        if self._vgg is None:
            self._vgg = Vgg(self.weights, self.layout, "relu5_1")
        with torch.no_grad():
            return self._vgg.mean_activations(middle_square(picture, STYLE_SIDE))
