"""The continuous shifts of CNS-Bench: styles and weathers, from the untouched picture on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from PIL import Image

from builders.parts import check_chosen, used_file
from builders.sample import Json, Sample
from builders.shifts.steps.framing import framed
from builders.shifts.styles import network, sliders
from builders.shifts.styles.sliders import SCALES, SLIDERS, Subject
from builders.shifts.weather import FIGURES, WEATHERS, render
from builders.terms import own_pictures
from shiftdata.data.format.records import Material, UsedFile
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng

SHIFTS = (*SLIDERS, *WEATHERS)


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """Each picture along one trajectory for each shift and seed; along a trajectory only the scale changes.

    The shifts of CNS-Bench (8 styles and 6 weathers, or those of them in `names`), from the untouched picture
    to a scale of 2.5. A seed chooses the style picture of a style shift, and the place of every stroke, flake
    and cloud. A shift has the same pixels whichever others are chosen.
    """

    code_version: ClassVar[int] = 1

    dataset: str
    seeds: tuple[int, ...]
    names: tuple[str, ...] = SHIFTS

    def __post_init__(self) -> None:
        check_chosen("shift", self.names, SHIFTS)
        known = range(sliders.style_codes().size)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or not set(self.seeds) <= set(known):
            raise InputError(f"seeds are 0 to {known[-1]}, each once, at least one; got {self.seeds}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        return self.names

    @property
    def severities(self) -> tuple[float, ...]:
        return SCALES

    def fingerprint(self) -> str:
        """The parameters, the figures of the weathers, and the assets behind the styles, if any is chosen."""
        parts = (self.dataset, *map(str, self.seeds), *self.names, *map(str, SCALES))
        assets = (sliders.fingerprint(), network.fingerprint()) if self._painted else ()
        figures = [FIGURES[name] for name in self.names if name in FIGURES]
        return content_hash(repr(parts), repr(assets), repr(figures))

    def used_files(self) -> list[UsedFile]:
        files = (sliders.CODES, sliders.CALIBRATION, *network.GRAPHS) if self._painted else ()
        return [*map(used_file, files)]

    @property
    def materials(self) -> tuple[Material, ...]:
        styles = [name for name in self.names if name in SLIDERS]
        drawn = own_pictures("Style pictures and weathers", self.names)
        return (drawn, network.terms(styles)) if styles else (drawn,)

    @property
    def _painted(self) -> bool:
        return not set(self.names) <= set(WEATHERS)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            picture = framed(sample)
            subject = Subject.of(picture) if self._painted else None
            for shift in self.names:
                for seed in self.seeds:
                    trajectory = f"{sample.key}-{shift}-s{seed}"
                    for scale in SCALES:
                        image, params = self._shifted(sample, subject, shift, seed, scale)
                        yield replace(
                            sample,
                            key=f"{trajectory}-{round(100 * scale):03d}",
                            example=image,
                            nuisance=shift,
                            severity=scale,
                            trajectory=trajectory,
                            params={**sample.params, "shift": shift, "seed": seed, **params},
                        )

    def _shifted(
        self, sample: Sample, subject: Subject | None, shift: str, seed: int, scale: float
    ) -> tuple[Image.Image, dict[str, Json]]:
        key = (seed, self.dataset, sample.key)
        if subject is None or shift in WEATHERS:
            return render(shift, sample.image, scale, key=key), {}
        # A fixed order for each content and shift: no two seeds have the same style picture.
        order = rng(self.dataset, "style-picture", sample.key, shift).permutation(sliders.style_codes().size)
        index, strength = int(order[seed]), sliders.strength_at(shift, scale)
        image = sliders.slide(subject, shift, index, strength, (*key, shift))
        blend = sliders.blend_at(strength)
        return image, {"style_picture": index, "strength": round(strength, 3), "blend": round(blend, 3)}
