"""TerraIncognita: some camera traps and classes of Caltech Camera Traps, by its annotation files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import ClassVar

from builders.albums.folder import ENDINGS
from builders.raw.album import Found, Odd, Row
from builders.raw.records import by_name, lists_in
from builders.raw.tree import Tree
from shiftdata.errors import InputError

PARTS = ("train", "cis_val", "cis_test", "trans_val", "trans_test")


@dataclass
class Photo:
    """What the annotation files say of a picture."""

    part: str
    location: str
    sequence: str | None
    shown: set[str] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class CameraTraps:
    """Flat pictures, and what five JSON files say of them: location, sequence and classes.

    Numbers of categories are those of the file they stand in. A picture with two of the classes is a row of
    each, as in DomainBed. All that one sequence shows has one origin, whatever its class and file.
    """

    code_version: ClassVar[int] = 1

    labels: tuple[str, ...]
    locations: tuple[str, ...]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """The pictures of the locations, one row for each of the classes that is seen."""
        files, photos = by_name(tree), _photos(tree)
        for name, photo in sorted(photos.items()):
            labels = [label for label in self.labels if label in photo.shown]
            if photo.location not in self.locations or (photo.shown and not labels):
                continue
            file = files.get(name.lower())
            if file is None:
                yield Odd(file=name, why=f"{photo.part}_annotations.json lists it, and it is not there")
            elif not labels:
                yield Odd(file=file, why="no annotation says what it shows")
            for label in labels if file else ():
                yield Row(
                    file=str(file),
                    label=label,
                    nuisance=f"location_{photo.location}",
                    origin=photo.sequence,
                    across=True,
                    more={"sequence": photo.sequence, "part": photo.part},
                )
        known = {PurePosixPath(name).name.lower() for name in photos}
        for name, file in files.items():
            if name.endswith(ENDINGS) and name not in known:
                yield Odd(file=file, why="no annotation file lists it")


def _photos(tree: Tree) -> dict[str, Photo]:
    """Every picture that the annotation files list, by the name of its file."""
    photos: dict[str, Photo] = {}
    files = by_name(tree)
    for part in PARTS:
        file = files.get(f"{part}_annotations.json")
        if file is None:
            raise InputError(
                f"{tree.place} has no {part}_annotations.json, which says what pictures show: put "
                "eccv_18_annotations.tar.gz beside the pictures, packed or unpacked"
            )
        images, annotations, categories = lists_in(tree, file, "images", "annotations", "categories")
        named = {str(category.get("id")): str(category.get("name")).lower() for category in categories}
        mine: dict[str, Photo] = {}
        for image in images:
            name, sequence = PurePosixPath(str(image.get("file_name"))).name, image.get("seq_id")
            new = Photo(part, str(image.get("location")), None if sequence is None else str(sequence))
            mine[str(image.get("id"))] = photos.setdefault(name, new)
        shown = defaultdict[str, set[str]](set)
        for one in annotations:
            shown[str(one.get("image_id"))].add(named.get(str(one.get("category_id")), "unknown"))
        for number, photo in mine.items():
            photo.shown |= shown[number]
    return photos
