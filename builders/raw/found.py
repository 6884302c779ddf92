"""What a layout finds in a tree: examples, and files that are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from builders.sample import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A file that a layout knows: what it shows, and `origin`, what it was made from.

    Pictures of a label share an origin in all domains; with `across` those of other labels share it too, such
    as what one camera saw. `stem` is what the key and an origin of its own are made of; by default the name
    of the file. An example that is only a part of its file, such as a picture in an array or the row of a
    table, has a `part`: its number there, from 0.
    """

    file: str
    label: str
    part: int | None = None
    nuisance: str | None = None
    severity: float | None = None
    origin: str | None = None
    across: bool = False
    stem: str | None = None
    bases: tuple[str, ...] = ()
    more: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Odd:
    """A file that is not what it should be, or that is not there, and why it is left out."""

    file: str
    why: str


Found: TypeAlias = Row | Odd
