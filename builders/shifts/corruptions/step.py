"""Corrupt each content picture: every corruption from the untouched picture to severity 5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.sample import Sample
from builders.shifts.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from shiftdata.errors import InputError, not_found


@dataclass(frozen=True, kw_only=True)
class Corrupt:
    """One trajectory for each content sample and corruption; severity 0 is the untouched picture."""

    code_version: ClassVar[int] = 1

    seed: int
    dataset: str
    names: tuple[str, ...] = CORRUPTIONS
    steps: tuple[int, ...] = (0, *SEVERITIES)

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in CORRUPTIONS:
                raise not_found("corruption", name, CORRUPTIONS)
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError(f"corruptions need at least one name, each once, got {self.names}")
        allowed = (0, *SEVERITIES)
        if not self.steps or list(self.steps) != sorted(set(self.steps) & set(allowed)):
            raise InputError(f"severities must be some of {allowed}, ascending, got {self.steps}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        """The corruptions."""
        return self.names

    @property
    def severities(self) -> tuple[float, ...]:
        """The severities, as a scale."""
        return tuple(float(step) for step in self.steps)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            for name in self.names:
                trajectory = f"{sample.key}-{name}"
                for step in self.steps:
                    names = (self.seed, self.dataset, sample.key)
                    image = corrupt(name, sample.image, step, key=names) if step else sample.image
                    yield replace(
                        sample,
                        key=f"{trajectory}-{step}",
                        example=image,
                        nuisance=name,
                        severity=float(step),
                        trajectory=trajectory,
                        params={**sample.params, "corruption": name, "severity": step},
                    )
