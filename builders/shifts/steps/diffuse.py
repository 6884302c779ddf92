"""Slide every picture of a diffusion model along its sliders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from PIL import Image

from builders.albums.folder import slug
from builders.parts import check_names_once
from builders.sample import Json, Sample
from builders.shifts.diffusion.pipeline import Diffusion, slid, start
from builders.shifts.diffusion.slider import Slider, read_slider, slider_file
from builders.shifts.styles.sliders import SCALES
from builders.shifts.stylizers.weights import used_weights, weights_hash
from shiftdata.data.format.records import Material, UsedFile
from shiftdata.errors import InputError
from shiftdata.stable import content_hash


@dataclass(frozen=True, kw_only=True)
class Diffuse:
    """Each class and seed along the slider of each shift; along a trajectory only the scale changes.

    `sliders` is a folder with `<shift>/<class>.safetensors` (`shiftdata sliders train`), `classes`
    are the album's. A slider is on from a share of the noise, `switch`, on (CNS-Bench: 0.75): what is drawn
    before is one for all. Pictures have the size to which the recipe's prepare brings the album's.
    """

    code_version: ClassVar[int] = 1

    diffusion: Diffusion
    sliders: Path
    shifts: tuple[str, ...]
    classes: tuple[str, ...]
    scales: tuple[float, ...] = SCALES
    switch: float = 0.75

    def __post_init__(self) -> None:
        check_names_once("shifts", self.shifts)
        check_names_once("classes", self.classes)
        if len(self.scales) < 2 or self.scales[0] != 0 or list(self.scales) != sorted(set(self.scales)):
            raise InputError(f"scales ascend from 0, at least two; got {self.scales}")
        lacking = [file for file in self._files() if not file.is_file()]
        if lacking:
            raise InputError(
                f"there is no slider {lacking[0]}, nor {len(lacking) - 1} others: train them by `python -m "
                "builders sliders train`, or put files of weights there"
            )

    def _files(self) -> list[Path]:
        return [slider_file(self.sliders, shift, label) for shift in self.shifts for label in self.classes]

    @property
    def nuisances(self) -> tuple[str, ...]:
        return self.shifts

    @property
    def materials(self) -> tuple[Material, ...]:
        how = "A pipeline that draws, along sliders trained for it; the hash is of all its files."
        return (self.diffusion.terms(how, self.shifts, [self.diffusion.weights_id()]),)

    @property
    def severities(self) -> tuple[float, ...]:
        return self.scales

    def fingerprint(self) -> str:
        names = (*self.shifts, *self.classes, *map(str, self.scales), str(self.switch))
        return content_hash(self.diffusion.fingerprint(), *names, *map(weights_hash, self._files()))

    def used_files(self) -> list[UsedFile]:
        return [*map(used_weights, self._files())]

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            seed = sample.item.source.get("seed")
            if not isinstance(seed, int):
                raise InputError(f"{sample.item.key} has no seed: Diffuse shifts what the album Seeds draws")
            for shift in self.shifts:
                yield from self._trajectory(sample, shift, seed)

    def _trajectory(self, sample: Sample, shift: str, seed: int) -> Iterator[Sample]:
        label = sample.item.label
        file = slider_file(self.sliders, shift, label)
        trajectory = f"{sample.key}-{slug(shift)}"
        made = [sample.image, *self._slid(label, seed, file)]
        for scale, picture in zip(self.scales, made, strict=True):
            yield replace(
                sample,
                key=f"{trajectory}-{round(100 * scale):03d}",
                example=picture if picture is sample.image else _as_large(picture, sample.image),
                nuisance=shift,
                severity=scale,
                trajectory=trajectory,
                params={**sample.params, "shift": shift, **self._params(file)},
            )

    def _slid(self, label: str, seed: int, file: Path) -> list[Image.Image]:
        begun = start(self.diffusion, label, seed, self.switch)
        slider = _slider(file, weights_hash(file), self.diffusion)
        return slid(self.diffusion, begun, slider, self.scales[1:])

    def _params(self, file: Path) -> dict[str, Json]:
        drawing = self.diffusion
        return {
            "slider": weights_hash(file)[:16],
            "switch": self.switch,
            "steps": drawing.steps,
            "guidance": drawing.guidance,
            "scheduler": drawing.scheduler,
            "negative_prompt": drawing.negative_prompt,
        }


def _as_large(picture: Image.Image, other: Image.Image) -> Image.Image:
    """A picture in the size of another, as `Resize` makes it."""
    return picture.resize(other.size, Image.Resampling.LANCZOS)


@lru_cache(32)
def _slider(file: Path, digest: str, diffusion: Diffusion) -> Slider:
    return read_slider(file, diffusion.networks.unet).to(diffusion.place, diffusion.kind)
