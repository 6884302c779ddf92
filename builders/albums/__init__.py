"""Albums: content pictures, texts or rows with labels, origins and licences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, Self, runtime_checkable

from builders.sample import Example, Item

__all__ = ["Album", "Files", "Hashed", "LeavesOut", "Raw"]


@runtime_checkable
class Album(Protocol):
    """The interface of a collection of content, as a recipe needs it.

    What takes a place among the folds is decided by `items`, once. An item that is dropped later, by
    `load`, a step or a filter, keeps its place, and is named in the dataset's identity.
    """

    #: Raise it whenever the same files make other items or other content.
    code_version: ClassVar[int]

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label, in the order that fixes the integer of each."""

    def items(self) -> Sequence[Item]:
        """Every item, in any order."""

    def load(self, item: Item) -> Example:
        """The item's picture (alpha kept), text or features; raises `BadItem` where it cannot be used."""

    def fingerprint(self) -> str:
        """A hash of everything the album would hand out: content, never a path."""


@runtime_checkable
class Hashed(Protocol):
    """An album that compares the content of its items: equal content becomes one origin."""

    def digests(self) -> Mapping[str, str]:
        """By key, a hash of the content as it was given; items without an equal may be missing."""


@runtime_checkable
class LeavesOut(Protocol):
    """An album of somebody's files: it says where its items lie, and what it cannot use."""

    @property
    def left_out(self) -> Mapping[str, str]:
        """Return the reason for each thing that was meant as an item and is not one, by place."""

    def place(self, item: Item, /) -> str:
        """Name the place of an item: a file, or the row of a table."""


@runtime_checkable
class Files(Protocol):
    """An album whose items are files, which may give away what the pictures in them should not."""

    def file(self, item: Item, /) -> Path:
        """The file of an item."""


@runtime_checkable
class Raw(Protocol):
    """An album of somebody's public dataset, which lies wherever its user has put it."""

    @property
    def is_here(self) -> bool:
        """True if its place exists."""

    def at(self, place: Path, /) -> Self:
        """The album, read from another folder or archive."""
