"""Domains, and continuous shifts, that come with the content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.parts import check_names_once
from builders.sample import Item, Sample
from shiftdata.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Domains:
    """Pass each content on under the domain that its album gives; `names` fixes their order."""

    code_version: ClassVar[int] = 1
    synthetic: ClassVar[bool] = False  # examples are passed on as they came

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names_once("domains", self.names)

    @property
    def nuisances(self) -> tuple[str, ...]:
        return self.names

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            if sample.item.nuisance is None:
                raise InputError(
                    f"the album gives {sample.item.key} no domain: name the folder or column that gives it"
                )
            yield replace(sample, nuisance=sample.item.nuisance)


@dataclass(frozen=True, kw_only=True)
class Trajectories(Domains):
    """Pass each content on under the nuisance, and at the severity, that its album gives.

    What an origin is in one nuisance is a trajectory: its album gives it once at each severity.
    """

    code_version: ClassVar[int] = 1

    def severities_of(self, items: Sequence[Item]) -> tuple[float, ...]:
        return tuple(sorted({item.severity for item in items if item.severity is not None}))

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in super().__call__(samples):
            item = sample.item
            if item.severity is None:
                raise InputError(f"the album gives {item.key} no severity: Domains needs none")
            yield replace(sample, severity=item.severity, trajectory=f"{item.origin} {item.nuisance}")
