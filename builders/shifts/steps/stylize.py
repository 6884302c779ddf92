"""Paint every picture in styles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.sample import Sample
from builders.shifts.steps.checks import OneStrength
from builders.shifts.styles import network
from builders.shifts.styles.bank import StyleBank
from shiftdata.stable import content_hash, rng


@dataclass(frozen=True, kw_only=True)
class Stylize(OneStrength):
    """One stylized sample for each content sample and style; names draw the style picture."""

    code_version: ClassVar[int] = 1

    @property
    def nuisances(self) -> tuple[str, ...]:
        return StyleBank.load().names

    def fingerprint(self) -> str:
        """The parameters, the bank's codes and the network's graphs."""
        parts = (str(self.seed), self.dataset, str(self.strength))
        return content_hash(*parts, StyleBank.load().fingerprint(), network.fingerprint())

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        bank = StyleBank.load()
        for sample in samples:
            features = network.features(sample.image)
            own = network.code(sample.image) if 0 < self.strength < 1 else None
            for style in bank.names:
                key = f"{sample.key}-{style}"
                index = int(rng(self.seed, self.dataset, "style-picture", key).integers(bank.size))
                code = bank.code(style, index)
                if own is not None:
                    code = network.mix(own, code, self.strength)
                painted = self.strength > 0
                image = network.paint(features, code, sample.image.size) if painted else sample.image
                params = {**sample.params, "style": style, "style_picture": index, "strength": self.strength}
                yield replace(
                    sample, key=key, example=image, nuisance=style, severity=self.strength, params=params
                )
