"""Base of stylizers with a decoder: two files of weights, features in, pictures out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from builders.shifts.stylizers.neural import Neural
from builders.shifts.stylizers.vgg import Decoder, Vgg, layout_of
from builders.shifts.stylizers.weights import Place, weights_hash
from shiftdata.stable import content_hash


@dataclass(frozen=True, kw_only=True)
class Decoding(Neural):
    """An encoder up to `layer` and its decoder, as files; `variant` is the layout of the encoder."""

    layer: ClassVar[str]

    encoder: Place
    decoder: Place
    variant: str = "vgg19"

    def __post_init__(self) -> None:
        super().__post_init__()
        layout_of(self.variant)

    def fingerprint(self) -> str:
        return content_hash(*self.settings, self.codes_id(), weights_hash(self.decoder))

    @cached_property
    def _vgg(self) -> Vgg:
        return Vgg(self.encoder, self.variant, self.layer, self.place, self.kind)

    @cached_property
    def _decoder(self) -> Decoder:
        return self.ready(Decoder(self.decoder, self._vgg))
