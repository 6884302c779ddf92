"""Set every cut-out into drawn scenes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.sample import Item, Sample
from builders.shifts.contexts.domains import COMMON, DOMAINS, TABLE, unique_of
from builders.shifts.contexts.scene import Stage, in_context
from builders.shifts.steps.framing import OneStrength
from builders.terms import own_pictures
from shiftdata.data.format.records import Material
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng

SMALLEST_SCENE = 64


@dataclass(frozen=True, kw_only=True)
class Contexts(OneStrength):
    """One picture for each cut-out and domain of its class: the ten common ones, and ten of its own.

    At strength 0 the object stands large and upright on plain ground. Names draw the scene.
    """

    code_version: ClassVar[int] = 2

    size: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < SMALLEST_SCENE:
            raise InputError(f"scenes need at least {SMALLEST_SCENE} pixels, got {self.size}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        return tuple(DOMAINS)

    def fingerprint(self) -> str:
        parts = (str(self.seed), self.dataset, str(self.size), str(self.strength))
        return content_hash(*parts, TABLE.read_bytes())

    @property
    def materials(self) -> tuple[Material, ...]:
        return (own_pictures("Scenes", self.nuisances),)

    def nuisances_of(self, item: Item) -> tuple[str, ...]:
        return (*COMMON, *unique_of(item.label))

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            for domain in self.nuisances_of(sample.item):
                key = f"{sample.key}-{domain}"
                random = rng(self.seed, self.dataset, "context", key)
                scenes = DOMAINS[domain]
                make = scenes[int(random.integers(len(scenes)))]
                image = in_context(sample.image, make, Stage(self.size, random, self.strength))
                params = {**sample.params, "scene": make.__name__, "strength": self.strength}
                yield replace(
                    sample, key=key, example=image, nuisance=domain, severity=self.strength, params=params
                )
