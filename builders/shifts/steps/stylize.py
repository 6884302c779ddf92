"""Paint every picture in styles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from builders.albums.folder import slug
from builders.parts import check_chosen, used_file
from builders.sample import Sample
from builders.shifts.steps.framing import OneStrength, framed
from builders.shifts.styles.bank import BANK, SLUG_LENGTH, StyleBank, encode_folder, read_bank, style_pictures
from builders.shifts.styles.listed import style_works
from builders.shifts.stylizers import Arbitrary, Stylizer
from builders.terms import own_pictures
from shiftdata.data.format.records import Material, UsedFile
from shiftdata.errors import InputError, not_found
from shiftdata.stable import content_hash, rng


@dataclass(frozen=True, kw_only=True)
class Stylize(OneStrength):
    """One stylized sample for each content sample and style; names draw the style picture.

    `styles` are names of the bank that ships (None: all of it), a folder `<style>/<picture>` of your own
    style pictures, or a file of their codes (`shiftdata styles encode`). A folder and its file of
    codes make the same dataset, wherever they lie. `strengths` multiply the strength of single styles,
    such as those that hide what is painted; the severity stays the same for all. `stylizer` is the network
    that paints; the bank that ships is of the default one. `license` and `attribution` are those of your own
    style pictures for which `styles.tsv`, or the file of codes, says nothing else.
    """

    code_version: ClassVar[int] = 2

    styles: Sequence[str] | Path | None = None
    strengths: Mapping[str, float] | None = None
    stylizer: Stylizer = field(default_factory=Arbitrary)
    license: str = ""
    attribution: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self._known()
        for style, strength in (self.strengths or {}).items():
            if style not in known:
                raise not_found("style", style, known, "It is in strengths.")
            if not 0 < strength <= 1:
                raise InputError(f"the strength of {style} must be above 0 and at most 1, got {strength}")

    def _known(self) -> tuple[str, ...]:
        """The names of the styles; whatever is wrong is said now, and a folder is encoded when needed."""
        if isinstance(self.styles, Path):
            if not self.styles.exists():
                raise InputError(
                    f"there is no {self.styles}: styles are a folder <style>/<picture>, or a file of codes"
                )
            if self.styles.is_dir():
                return tuple(style_pictures(self.styles))
            return read_bank(self.styles, self.stylizer).names
        if not isinstance(self.stylizer, Arbitrary):
            raise InputError(
                f"the bank that ships has codes of the default stylizer, and {self.stylizer.name} needs its "
                "own: give styles=Path('my_styles'), a folder <style>/<picture> or a file of codes"
            )
        if self.styles is None:
            return StyleBank.load().names
        if isinstance(self.styles, list | tuple):
            check_chosen("style", tuple(self.styles), StyleBank.load().names)
            return tuple(self.styles)
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
            read = encode_folder if self.styles.is_dir() else read_bank
            return read(self.styles, self.stylizer)
        codes = StyleBank.load().codes
        return StyleBank({name: codes[name] for name in self.styles or codes})

    @cached_property
    def materials(self) -> tuple[Material, ...]:
        """The style pictures, those with equal terms together, and the networks that paint."""
        if not isinstance(self.styles, Path):
            pictures = [own_pictures("Style pictures", self.nuisances)]
        else:
            pictures = style_works(self.styles, self._known(), self.license, self.attribution)
        return (*pictures, *self.stylizer.tools(self._known()))

    @property
    def threads(self) -> int:
        return self.stylizer.threads

    def fingerprint(self) -> str:
        strengths = (f"{self.strength_of(style):g}" for style in self.nuisances)
        parts = (str(self.seed), self.dataset, *strengths)
        return content_hash(*parts, self._bank.fingerprint(), self.stylizer.fingerprint())

    def used_files(self) -> list[UsedFile]:
        return [] if isinstance(self.styles, Path) else [used_file(BANK)]

    def strength_of(self, style: str) -> float:
        return self.strength * (self.strengths or {}).get(style, 1.0)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            picture, bank = framed(sample), self._bank
            keys = {style: f"{sample.key}-{slug(style, SLUG_LENGTH)}" for style in bank.names}
            chosen = {style: self._drawn(keys[style], bank.count(style)) for style in bank.names}
            codes = [bank.code(style, index) for style, index in chosen.items()]
            strengths = [self.strength_of(style) for style in chosen]
            painted = self.stylizer.stylize(picture, codes, strengths)
            for (style, index), strength, image in zip(chosen.items(), strengths, painted, strict=True):
                params = {**sample.params, "style": style, "style_picture": index, "strength": strength}
                yield replace(
                    sample,
                    key=keys[style],
                    example=image,
                    nuisance=style,
                    severity=self.strength,
                    params=params,
                )

    def _drawn(self, key: str, count: int) -> int:
        return int(rng(self.seed, self.dataset, "style-picture", key).integers(count))
