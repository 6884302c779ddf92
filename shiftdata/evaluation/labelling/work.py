"""What is to be labelled: keys in an order, what a page shows of each, and the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shiftdata.evaluation.labelling.purposes import Purpose
from shiftdata.evaluation.labelling.table import Key


@dataclass(frozen=True)
class Shown:
    """A picture on the page: what stands below it, and whether the question is about it."""

    caption: str
    asked: bool = True


@dataclass(frozen=True, kw_only=True)
class Item:
    """What the page shows of a key: its facts by name, pictures, and the pictures of a trajectory."""

    title: str
    facts: Mapping[str, str]
    pictures: Sequence[Shown]
    trajectory: Sequence[Shown] = field(default=())


class Work(Protocol):
    """Something to label; `title` says what, and `keys` are in the order in which they are asked about."""

    @property
    def purpose(self) -> Purpose: ...

    @property
    def title(self) -> str: ...

    @property
    def keys(self) -> Sequence[Key]: ...

    def item(self, number: int) -> Item:
        """What is shown of the key of that number."""

    def picture(self, number: int, place: int) -> bytes:
        """The picture of an item that has that place: first its pictures, then its trajectory."""

    def knows(self, key: Key) -> bool:
        """Whether a key could be among those that are asked about, if others were chosen."""
