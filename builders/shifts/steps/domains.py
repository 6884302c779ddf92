"""Domains that come with the content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.sample import Sample
from builders.shifts.steps.checks import check_names_once
from shiftdata.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Domains:
    """Pass each content on under the domain that its album gives; `names` fixes their order."""

    code_version: ClassVar[int] = 1

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
