"""Data whose shift is already there: each picture, text or row comes from one of several domains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.sample import Sample
from shiftdata.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Domains:
    """Pass each content on under the domain that its album gives; `names` fixes their order."""

    code_version: ClassVar[int] = 1

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names) or not self.names:
            raise InputError(f"domains need at least one name, each once, got {self.names}")

    @property
    def nuisances(self) -> tuple[str, ...]:
        """The domains."""
        return self.names

    @property
    def severities(self) -> tuple[float, ...]:
        """Domains have no scale."""
        return ()

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            if sample.item.nuisance is None:
                raise InputError(
                    f"the album gives {sample.item.key} no domain: name the folder or column that holds it"
                )
            yield replace(sample, nuisance=sample.item.nuisance, severity=None)
