"""Corrupt every picture, in five severities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.parts import check_chosen
from builders.sample import Sample
from builders.shifts.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from builders.shifts.steps.framing import framed
from shiftdata.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Corrupt:
    """One trajectory for each content sample and corruption; severity 0 is the untouched picture."""

    code_version: ClassVar[int] = 3

    seed: int
    dataset: str
    names: tuple[str, ...] = CORRUPTIONS
    steps: tuple[int, ...] = (0, *SEVERITIES)

    def __post_init__(self) -> None:
        check_chosen("corruption", self.names, CORRUPTIONS)
        allowed = (0, *SEVERITIES)
        if not self.steps or list(self.steps) != sorted(set(self.steps) & set(allowed)):
            raise InputError(f"severities must be some of {allowed}, ascending, got {self.steps}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        return self.names

    @property
    def severities(self) -> tuple[float, ...]:
        return tuple(float(step) for step in self.steps)

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            picture, names = framed(sample), (self.seed, self.dataset, sample.key)
            for name in self.names:
                for step in self.steps:
                    yield replace(
                        sample,
                        key=f"{sample.key}-{name}-{step}",
                        example=corrupt(name, picture, step, key=names) if step else picture,
                        nuisance=name,
                        severity=float(step),
                        trajectory=f"{sample.key}-{name}",
                        params={**sample.params, "corruption": name, "severity": step},
                    )
