"""The continuous shifts of CNS-Bench: styles and weathers, from the untouched picture on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from PIL import Image

from builders.sample import Json, Sample
from builders.shifts.styles import network, sliders
from builders.shifts.styles.sliders import SCALES, SLIDERS, Subject
from builders.shifts.weather import FIGURES, WEATHERS, render
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """Each picture along one trajectory for each shift and seed; along a trajectory only the scale changes.

    The 14 shifts of CNS-Bench, from the untouched picture to a scale of 2.5. A seed chooses the style picture
    of a style shift, and the place of every stroke, flake and cloud.
    """

    code_version: ClassVar[int] = 1

    dataset: str
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        known = range(sliders.style_codes().size)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or not set(self.seeds) <= set(known):
            raise InputError(f"seeds are of 0 to {known[-1]}, each once, at least one; got {self.seeds}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        return (*SLIDERS, *WEATHERS)

    @property
    def severities(self) -> tuple[float, ...]:
        return SCALES

    def fingerprint(self) -> str:
        """The parameters, the assets behind the style shifts, and the figures of the weather."""
        parts = (self.dataset, *map(str, self.seeds), *self.nuisances, *map(str, SCALES))
        return content_hash(*parts, sliders.fingerprint(), network.fingerprint(), repr(FIGURES))

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            subject = Subject.of(sample.image)
            for shift in self.nuisances:
                for seed in self.seeds:
                    trajectory = f"{sample.key}-{shift}-s{seed}"
                    for scale in SCALES:
                        image, params = self._shifted(sample.key, subject, shift, seed, scale)
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
        self, content: str, subject: Subject, shift: str, seed: int, scale: float
    ) -> tuple[Image.Image, dict[str, Json]]:
        """One picture of a trajectory, and what else is needed to make it again."""
        key = (seed, self.dataset, content)
        if shift in WEATHERS:
            return render(shift, subject.image, scale, key=key), {}
        # A fixed order for each content and shift: no two seeds have the same style picture.
        order = rng(self.dataset, "style-picture", content, shift).permutation(sliders.style_codes().size)
        index, strength = int(order[seed]), sliders.strength_at(shift, scale)
        image = sliders.slide(subject, shift, index, strength, (*key, shift))
        blend = sliders.blend_at(strength)
        return image, {"style_picture": index, "strength": round(strength, 3), "blend": round(blend, 3)}
