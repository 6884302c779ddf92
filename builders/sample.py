"""The records of a build: an album's item, and the sample that steps turn it into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from PIL import Image

from builders.terms import check_license
from shiftdata.errors import InputError


@dataclass(frozen=True)
class PictureFile:
    """A picture with the bytes of its file, which are published if no step changes the pixels.

    There are none where the file ends too soon.
    """

    data: bytes
    picture: Image.Image


#: A picture, a text, or the features of a table's row by column.
Example: TypeAlias = Image.Image | PictureFile | str | Mapping[str, bool | int | float | str | None]

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


class BadItem(Exception):
    """An item of an album cannot be used; the reason is counted and published, the build goes on.

    Details that differ from item to item are in parentheses at the end of the reason.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One content picture, text or row of an album, without the content itself.

    `nuisance` is given by albums whose content comes with it, such as photographs of several domains, and
    `severity` by those whose content comes in several.
    `bases` names the bases that its authors list it in, for bases that follow such a list.
    """

    key: str
    label: str
    origin: str
    license: str
    attribution: str
    nuisance: str | None = None
    severity: float | None = None
    bases: tuple[str, ...] = ()
    source: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_license(self.license, str(self.source.get("file", self.key)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One example on its way to a shard.

    `nuisance` is None for the untouched content; `severity` is None where the nuisance has no scale.
    `trajectory` names the content in one nuisance over all its severities; without it a sample is alone.
    """

    item: Item
    key: str
    example: Example
    nuisance: str | None = None
    severity: float | None = 0.0
    trajectory: str | None = None
    params: Mapping[str, Json] = field(default_factory=dict)

    @property
    def image(self) -> Image.Image:
        """The example as a picture; a step for pictures must not be given anything else."""
        if isinstance(self.example, PictureFile):
            return self.example.picture
        if not isinstance(self.example, Image.Image):
            raise InputError(
                f"{self.key} is a {type(self.example).__name__}, and a step of the recipe is for pictures"
            )
        return self.example


Step: TypeAlias = Callable[[Iterator[Sample]], Iterator[Sample]]
