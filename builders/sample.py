"""What flows through a build: an album's item, and the sample that steps turn it into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from PIL import Image

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


class BadItem(Exception):
    """An item of an album cannot be used; the reason is counted and published, the build goes on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One content picture of an album, without its pixels."""

    key: str
    label: str
    origin: str
    license: str
    attribution: str
    source: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One example on its way to a shard. `nuisance` is None for the untouched content."""

    item: Item
    key: str
    image: Image.Image
    nuisance: str | None = None
    severity: float = 0.0
    params: Mapping[str, Json] = field(default_factory=dict)


Step: TypeAlias = Callable[[Iterator[Sample]], Iterator[Sample]]
