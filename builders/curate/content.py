"""Labelled pictures to stylize: those of a recipe before its shift, or of a folder `<label>/<picture>`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image

from builders.albums.folder import FolderAlbum
from builders.make.render import render_item
from builders.parts import part_identity
from builders.recipe import Recipe
from builders.recipe_files import load_recipe
from builders.sample import BadItem, Item
from builders.shifts.styles.bank import on_white
from builders.shifts.stylizers.vgg import middle_square
from shiftdata.errors import InputError
from shiftdata.stable import content_hash

#: Pixels a side: enough to recognise things in, and four times sooner painted than 256.
SIDE = 128


@dataclass(frozen=True)
class Content:
    """The content that a recipe's name or file, or a folder, refers to."""

    reference: str

    def __reduce__(self) -> tuple[type[Content], tuple[str]]:
        return Content, (self.reference,)  # another process reads the recipe's file itself

    @cached_property
    def _source(self) -> Recipe | FolderAlbum:
        folder = Path(self.reference)
        if folder.is_dir():
            return FolderAlbum(folder, license="LicenseRef-not-published", attribution="not published")
        return load_recipe(self.reference)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Every item, by key."""
        source = self._source
        return source.items() if isinstance(source, FolderAlbum) else tuple(source.album.items())

    def fingerprint(self) -> str:
        """Hash everything that determines the pictures."""
        source = self._source
        parts = source if isinstance(source, FolderAlbum) else (source.album, source.prepare)
        return content_hash(str(SIDE), json.dumps(part_identity(parts)))

    def pictures(self, items: Iterable[Item]) -> Iterator[tuple[Item, Image.Image]]:
        """Some items, each with the middle square of its picture; what cannot be used is left out."""
        load = self._load
        for item in items:
            try:
                picture = load(item)
            except BadItem:
                continue
            yield item, middle_square(on_white(picture), SIDE)

    @property
    def _load(self) -> Callable[[Item], Image.Image]:
        source = self._source
        if isinstance(source, FolderAlbum):
            return source.load
        if source.encoding.modality != "image":
            raise InputError(
                f"the recipe {source.name} is of {source.encoding.modality}s: give one of pictures"
            )
        return lambda item: next(render_item(source, "content", item)).image
