"""TerraIncognita: some camera traps and classes of Caltech Camera Traps, by its annotation files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import ClassVar

from builders.albums.folder import ENDINGS
from builders.raw.folders import Folders
from builders.raw.found import Found, Odd, Row
from builders.raw.records import by_name, lists_in
from builders.raw.tree import Tree
from shiftdata.errors import InputError

#: The five files of the subset of ECCV 2018, or the one of all of Caltech Camera Traps.
FIVE = tuple(
    f"{part}_annotations.json" for part in ("train", "cis_val", "cis_test", "trans_val", "trans_test")
)
WHOLE = ("caltech_images*.json", "caltech_camera_traps*.json")
HELP = "put eccv_18_annotations.tar.gz (3 MB) next to the pictures, packed or unpacked"
NO_SEQUENCES = (
    "not there, so which frames are of one sequence is not known: each picture in a folder "
    "location_<number>/<class>/ is an origin of its own, and frames of a location may stand on both sides "
    f"of a cut within it; {HELP}"
)


@dataclass(frozen=True, kw_only=True)
class CameraTraps(Folders):
    """Pictures, flat or in folders, and JSON files with their locations, sequences and classes.

    Numbers of categories are those of the file they stand in. A picture with two of the classes is a row of
    each, as in DomainBed. All that one sequence shows has one origin, whatever its class and file. Without
    the JSON files, as DomainBed's download leaves the tree, `location_<number>/<class>/` is read, and no
    sequence is known.
    """

    code_version: ClassVar[int] = 2

    complete: bool = False

    def rows(self, tree: Tree) -> Iterator[Found]:
        """The pictures of the locations, one row for each of the classes that is seen."""
        files, photos = by_name(tree), _photos(tree)
        if not photos:
            yield Odd(file=FIVE[0], why=NO_SEQUENCES)
            yield from super().rows(tree)
            return
        for name, (photo, shown) in photos.items():
            labels = [label for label in self.labels if label in shown]
            if photo.nuisance not in self.domains or (shown and not labels):
                continue
            if (file := files.get(name)) is None:
                yield Odd(file=photo.file, why="an annotation file lists it, and it is not there")
            elif not labels:
                yield Odd(file=file, why="no annotation says what it shows")
            else:
                yield from (replace(photo, file=file, label=label) for label in labels)
        unlisted = (file for name, file in files.items() if name.endswith(ENDINGS) and name not in photos)
        yield from (Odd(file=file, why="no annotation file lists it") for file in unlisted)


def _photos(tree: Tree) -> Mapping[str, tuple[Row, set[str]]]:
    """A row without a label of each picture in the annotation files, by its name, and what it shows."""
    photos: dict[str, tuple[Row, set[str]]] = {}
    for file in _annotation_files(tree):
        images, annotations, categories = lists_in(tree, file, "images", "annotations", "categories")
        named = {str(category.get("id")): str(category.get("name")).lower() for category in categories}
        shown = defaultdict[str, set[str]](set)
        for annotation in annotations:
            category = named.get(str(annotation.get("category_id")), "unknown")
            shown[str(annotation.get("image_id"))].add(category)
        part = file.rpartition("/")[2].removesuffix("_annotations.json")
        for image in images:
            name = str(image.get("file_name")).rpartition("/")[2]
            sequence = None if image.get("seq_id") is None else str(image["seq_id"])
            row = Row(
                file=name,
                label="",
                nuisance=f"location_{image.get('location')}",
                origin=sequence,
                across=True,
                more={"sequence": sequence, "part": part},
            )
            photos.setdefault(name.lower(), (row, set()))[1].update(shown[str(image.get("id"))])
    return photos


def _annotation_files(tree: Tree) -> Sequence[str]:
    files = by_name(tree)
    present = [files[name] for name in FIVE if name in files]
    if present and len(present) < len(FIVE):
        lacking = ", ".join(name for name in FIVE if name not in files)
        raise InputError(f"{tree.place} has no {lacking}, and its other annotation files: {HELP}")
    whole = [file for name, file in files.items() if any(fnmatch(name, pattern) for pattern in WHOLE)]
    return present or whole[:1]
