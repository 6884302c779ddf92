"""The album of a raw recipe at a place, and of a copy of its tree in which something was changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from builders.raw.album import RawAlbum
from builders.recipe_files import load_recipe


def album_of(name: str, place: Path) -> RawAlbum:
    """The album of a recipe, read from a place."""
    album = load_recipe(f"{name}={place}").album
    assert isinstance(album, RawAlbum)
    return album


def rows(album: RawAlbum) -> list[tuple[object, ...]]:
    """List what a `content_id` is made of."""
    return [
        (item.key, item.label, item.nuisance, item.origin, album.tree.read(album.place(item)))
        for item in album.items()
    ]


def changed(name: str, raw: Path, to: Path, how: Callable[[Path], object]) -> RawAlbum:
    """The album of a copy of a tree, after `how` has changed the copy."""
    shutil.copytree(raw, to)
    how(to)
    return album_of(name, to)
