"""Albums: content pictures with labels, origins and licences."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from PIL import Image

from builders.sample import Item

__all__ = ["Album"]


@runtime_checkable
class Album(Protocol):
    """What a recipe needs of a collection of content pictures."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label, in the order that fixes the integer of each."""

    def items(self) -> tuple[Item, ...]:
        """Every item, sorted by key; reads no pixel."""

    def load(self, item: Item, size: int) -> Image.Image:
        """The item's picture, alpha kept; a vector source is drawn at `size` pixels.

        Raises `BadItem` where the picture cannot be used.
        """

    def fingerprint(self) -> str:
        """A hash of everything the album would hand out: content, never a path."""
