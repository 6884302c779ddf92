"""Paint each content picture in every style of the bank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.sample import Sample
from builders.shifts.styles.bank import StyleBank
from builders.shifts.styles.network import mix, network_fingerprint, shared_network
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng


@dataclass(frozen=True, kw_only=True)
class Stylize:
    """One stylized sample for each content sample and style; the style picture is drawn by names.

    `strength` runs from 0, the untouched picture, to 1, the full style.
    """

    code_version: ClassVar[int] = 1

    seed: int
    dataset: str
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength must be between 0 and 1, got {self.strength}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        """The names of the styles."""
        return StyleBank.load().names

    @property
    def severities(self) -> tuple[float, ...]:
        """The one strength."""
        return (self.strength,)

    def fingerprint(self) -> str:
        """The parameters, the bank's codes and the network's graphs."""
        parts = (str(self.seed), self.dataset, str(self.strength))
        return content_hash(*parts, StyleBank.load().fingerprint(), network_fingerprint())

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        network, bank = shared_network(), StyleBank.load()
        for sample in samples:
            features = network.features(sample.image)
            own = network.code(sample.image) if 0 < self.strength < 1 else None
            for style in bank.names:
                key = f"{sample.key}-{style}"
                index = int(rng(self.seed, self.dataset, "style-picture", key).integers(bank.size))
                code = bank.code(style, index)
                if own is not None:
                    code = mix(own, code, self.strength)
                painted = self.strength > 0
                image = network.paint(features, code, sample.image.size) if painted else sample.image
                params = {**sample.params, "style": style, "style_picture": index, "strength": self.strength}
                yield replace(
                    sample, key=key, example=image, nuisance=style, severity=self.strength, params=params
                )
