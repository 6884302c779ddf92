"""Set each cut-out into contexts: the ten common domains, and the unique ones of its class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.sample import Item, Sample
from builders.shifts.contexts.compose import in_context
from builders.shifts.contexts.domains import COMMON, DOMAINS, TABLE, unique_of
from builders.shifts.contexts.stage import Stage
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, rng

LEAST = 64


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """One picture for each cut-out and domain of its class; the scene is drawn by names.

    `strength` is the degree of shift: from 0, the object large on plain ground, to 1, the whole context.
    """

    code_version: ClassVar[int] = 1

    seed: int
    dataset: str
    size: int = 128
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength must be between 0 and 1, got {self.strength}")
        if self.size < LEAST:
            raise InputError(f"scenes need at least {LEAST} pixels to be told apart, got {self.size}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        """The common domains, then the unique ones of all classes."""
        return tuple(DOMAINS)

    @property
    def severities(self) -> tuple[float, ...]:
        """The one strength."""
        return (self.strength,)

    def fingerprint(self) -> str:
        """The parameters, and the table of unique domains."""
        parts = (str(self.seed), self.dataset, str(self.size), str(self.strength))
        return content_hash(*parts, TABLE.read_bytes())

    def nuisances_of(self, item: Item) -> tuple[str, ...]:
        """The common domains, and the unique ones of the item's class."""
        return (*COMMON, *unique_of(item.label))

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            for domain in self.nuisances_of(sample.item):
                key = f"{sample.key}-{domain}"
                random = rng(self.seed, self.dataset, "context", key)
                scenes = DOMAINS[domain]
                make = scenes[int(random.integers(len(scenes)))]
                image, _ = in_context(sample.image, make, Stage(self.size, random, self.strength))
                params = {**sample.params, "scene": make.__name__, "strength": self.strength}
                yield replace(
                    sample, key=key, example=image, nuisance=domain, severity=self.strength, params=params
                )
