"""ImageNet and ImageNetV2: their classes, BREEDS' superclasses, and pictures known by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

from builders.albums.folder import ENDINGS
from builders.raw.folders import NO_PICTURE
from builders.raw.found import Found, Odd, Row
from builders.raw.lists import LISTS
from builders.raw.records import decoded
from builders.raw.tree import Tree
from builders.sample import Json
from shiftdata.data.metadata.listing import ORDER
from shiftdata.errors import not_found
from shiftdata.untrusted.texts import read_toml

CLASSES = Path(__file__).with_name("imagenet_classes.tsv")
BREEDS = Path(__file__).with_name("breeds.toml")
NODE = re.compile(r"n\d{8}")
#: A training picture, or a sample that is named after its class; and a validation picture. In the archives of
#: the Hub both end in the WordNet id of their class.
TRAIN = re.compile(r"((n\d{8})_.+?)(?:_n\d{8})?")
VALIDATION = re.compile(r"(ILSVRC2012_val_\d{8})(?:_(n\d{8}))?")
#: Part of the name of a folder above those of ImageNetV2, which are numbers of classes.
V2 = "imagenetv2"
#: Tables of the classes of validation pictures: Kaggle's, Caffe's, and one WordNet id a line, in their order.
TABLE = re.compile(r"(?:.*val.*synset.*|val)\.txt|loc_val_solution\.csv")
LISTED = re.compile(r"(ILSVRC2012_val_\d{8})(?:\.JPEG)?[,\s]+(n\d{8}|\d{1,3})\b")
#: Folders of ImageNet-C, which has copies of the names of validation pictures.
SEVERITIES = ("1", "2", "3", "4", "5")
UNKNOWN = "its class is not known: sort it into a folder of its class, or put LOC_val_solution.csv next to it"
NO_CLASS = "missing: the tree has no picture of this class"
TWICE = "there already, in another folder"


@cache
def nodes() -> Mapping[str, int]:
    """The number of each class, by its WordNet id."""
    return {node: number for number, (node, _) in enumerate(_classes())}


@cache
def labels() -> tuple[str, ...]:
    """The labels of all classes, in order.

    >>> labels()[22], len(labels())
    ('022_bald eagle', 1000)
    """
    return tuple(f"{number:03}_{name}" for number, (_, name) in enumerate(_classes()))


def _classes() -> list[list[str]]:
    """The WordNet id and the first name of each class."""
    return [line.split("\t") for line in CLASSES.read_text(encoding="utf-8").splitlines()]


@cache
def breeds() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The superclasses of each dataset of BREEDS: `name`, `node`, classes of `source` and `target`."""
    return read_toml(BREEDS)


class Photo(NamedTuple):
    """A picture of ImageNet (`train`, `val`) or ImageNetV2 (`v2`)."""

    part: str
    number: int
    stem: str

    @property
    def place(self) -> tuple[str, str]:
        """ImageFolder's order: WordNet ids, or in ImageNetV2 numbers, as texts; then names."""
        return f"{self.number}" if self.part == "v2" else f"{self.number:03}", self.stem


@dataclass(frozen=True, kw_only=True)
class Photographs:
    """Pictures of ImageNet and ImageNetV2, by their names, wherever they lie; a second copy is odd.

    Attributes:
        parts: the domain of each part that is read: `train`, `val` and `v2`.
        superclasses: a dataset of BREEDS, whose superclasses are the labels. Pictures of a source
            sub-population are in the domain `<domain>_1`, those of a target one in `<domain>_2`.

    """

    code_version: ClassVar[int] = 1

    parts: Mapping[str, str]
    superclasses: str = ""

    def __post_init__(self) -> None:
        if self.superclasses and self.superclasses not in breeds():
            raise not_found("dataset of BREEDS", self.superclasses, breeds())

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in order."""
        return tuple(dict.fromkeys(label for label, _ in self._classes.values()))

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains, in order."""
        halves = dict.fromkeys(half for _, half in self._classes.values())
        return tuple(map("".join, product(dict.fromkeys(self.parts.values()), halves)))

    @cached_property
    def _classes(self) -> Mapping[int, tuple[str, str]]:
        """The label of each class that is read, by its number, and the end of its domain's name."""
        if not self.superclasses:
            return {number: (label, "") for number, label in enumerate(labels())}
        return {
            number: (superclass["name"], half)
            for superclass in breeds()[self.superclasses]
            for half, population in (("_1", "source"), ("_2", "target"))
            for number in superclass[population]
        }

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of the classes, in the lists of the parts; then the domains without any."""
        files: dict[Photo, str] = {}
        listed = _validation(tree)
        for file in (file for file in tree.files if file.lower().endswith(ENDINGS)):
            photo = _photo(PurePosixPath(file), listed)
            if isinstance(photo, str):
                yield Odd(file=file, why=photo)
            elif photo and photo.part in self.parts and photo.number in self._classes:
                if photo in files:
                    yield Odd(file=file, why=TWICE)
                files.setdefault(photo, file)
        places, found = Counter[str](), set[str]()
        for photo in sorted(files, key=lambda photo: photo.place):
            label, half = self._classes[photo.number]
            domain, place = self.parts[photo.part] + half, places[photo.part]
            lists: dict[str, Json] = {ORDER: place}
            if photo.part != "v2":
                lists[photo.part] = place
            more: dict[str, Json] = {"class": photo.number, LISTS: lists}
            yield Row(file=files[photo], label=label, nuisance=domain, stem=photo.stem, more=more)
            places[photo.part] += 1
            found.add(domain)
        yield from (Odd(file=domain, why=NO_PICTURE) for domain in self.domains if domain not in found)
        lacking = self._classes.keys() - {photo.number for photo in files}
        yield from (Odd(file=labels()[number], why=NO_CLASS) for number in sorted(lacking))


def _photo(path: PurePosixPath, listed: Mapping[str, str]) -> Photo | str | None:
    """The picture that a path names, or why it names none; None where it is of another dataset."""
    *above, folder = ("", *path.parts[:-1])
    of_folder = folder if NODE.fullmatch(folder) else ""
    if of_folder and above[-1] in SEVERITIES:
        return None
    if any(V2 in level.lower() for level in above):
        if folder not in nodes() and not (folder.isdecimal() and int(folder) < len(nodes())):
            return "not in a folder with the number of a class"
        return Photo("v2", nodes()[folder] if of_folder else int(folder), path.stem)
    if validated := VALIDATION.fullmatch(path.stem):
        part, stem, node = "val", validated[1], validated[2] or of_folder or listed.get(validated[1], "")
    elif trained := TRAIN.fullmatch(path.stem):
        part, stem, node = "train", trained[1], trained[2]
    else:
        return f"its name is not {folder}_<number> or ILSVRC2012_val_<number>" if of_folder else None
    if of_folder not in ("", node):
        return f"its name is of {node}, and it is in the folder of another class"
    if node not in nodes():
        return f"{node} is not one of the 1,000 classes" if node else UNKNOWN
    return Photo(part, nodes()[node], stem)


def _validation(tree: Tree) -> dict[str, str]:
    """The class of each validation picture, where a table or the folder of a copy says it."""
    listed: dict[str, str] = {}
    for file in tree.files:
        path = PurePosixPath(file)
        if VALIDATION.fullmatch(path.stem) and NODE.fullmatch(path.parent.name):
            listed.setdefault(path.stem, path.parent.name)
        elif TABLE.fullmatch(path.name.lower()):
            text = decoded(tree.read(file))
            pairs, words = LISTED.findall(text), text.split()
            if not pairs and all(map(NODE.fullmatch, words)):
                pairs = [(f"ILSVRC2012_val_{number:08}", node) for number, node in enumerate(words, 1)]
            by_number = [*nodes()]
            listed |= {name: by_number[int(of)] if of.isdecimal() else of for name, of in pairs}
    return listed
