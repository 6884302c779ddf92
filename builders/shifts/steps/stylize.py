"""Paint every picture in styles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from builders.albums.folder import slug
from builders.parts import check_chosen
from builders.sample import Sample
from builders.shifts.steps.checks import OneStrength, framed
from builders.shifts.styles import network
from builders.shifts.styles.bank import SLUG_LENGTH, StyleBank, encode_folder, read_bank, style_pictures
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng


@dataclass(frozen=True, kw_only=True)
class Stylize(OneStrength):
    """One stylized sample for each content sample and style; names draw the style picture.

    `styles` are names of the bank that ships (None: all of it), a folder `<style>/<picture>` of your own
    style pictures, or a file of their codes (`python -m builders encode-styles`). A folder and its file of
    codes make the same dataset, wherever they lie.
    """

    code_version: ClassVar[int] = 2

    styles: Sequence[str] | Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.styles, Path):
            if not self.styles.exists():
                raise InputError(
                    f"there is no {self.styles}: styles are a folder <style>/<picture>, or a file of codes"
                )
            if self.styles.is_dir():
                style_pictures(self.styles)  # whatever is wrong is said now, and encoded when it is needed
            else:
                read_bank(self.styles)
        elif isinstance(self.styles, list | tuple):
            check_chosen("style", tuple(self.styles), StyleBank.load().names)
        elif self.styles is not None:
            raise InputError(
                f"styles is {self.styles!r}: write Path('my_styles') for a folder or a file of codes, or "
                f"{StyleBank.load().names[:2]} for styles of the bank"
            )

    @property
    def nuisances(self) -> tuple[str, ...]:
        return self._bank.names

    @cached_property
    def _bank(self) -> StyleBank:
        if isinstance(self.styles, Path):
            return encode_folder(self.styles) if self.styles.is_dir() else read_bank(self.styles)
        codes = StyleBank.load().codes
        return StyleBank({name: codes[name] for name in self.styles or codes})

    def fingerprint(self) -> str:
        """The parameters, the codes of the styles and the network's graphs."""
        parts = (str(self.seed), self.dataset, str(self.strength))
        return content_hash(*parts, self._bank.fingerprint(), network.fingerprint())

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            features = network.features(framed(sample))
            own = network.code(sample.image) if 0 < self.strength < 1 else None
            for style, codes in self._bank.codes.items():
                key = f"{sample.key}-{slug(style, SLUG_LENGTH)}"
                index = int(rng(self.seed, self.dataset, "style-picture", key).integers(len(codes)))
                code = codes[index]
                if own is not None:
                    code = network.mix(own, code, self.strength)
                painted = self.strength > 0
                image = network.paint(features, code, sample.image.size) if painted else sample.image
                params = {**sample.params, "style": style, "style_picture": index, "strength": self.strength}
                yield replace(
                    sample, key=key, example=image, nuisance=style, severity=self.strength, params=params
                )
