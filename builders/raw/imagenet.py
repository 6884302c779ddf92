"""ImageNet and what was made after it: the pictures of BREEDS, ImageNetV2, ImageNet-R and ImageNet-C."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import ClassVar, NamedTuple

from builders.albums.folder import ENDINGS
from builders.raw.album import Found, Odd, Row
from builders.raw.breeds import Superclass
from builders.raw.folders import NO_PICTURE
from builders.raw.lists import LISTS
from builders.raw.tree import Tree
from shiftdata.data.metadata.listing import ORDER

CLASSES = Path(__file__).with_name("imagenet_classes.tsv")
TERMS = "LicenseRef-ImageNet-research-only"
NODE = re.compile(r"n\d{8}")
TRAIN = re.compile(r"(n\d{8})_\d+")
VALIDATION = re.compile(r"ILSVRC2012_val_(\d{8})")
#: What is in the name of a folder above those of ImageNetV2, which are numbers.
SECOND = "imagenetv2"
#: Which class each picture of a flat validation folder shows: Kaggle's table, or a line a picture.
SOLUTION, LINES = "loc_val_solution.csv", re.compile(r".*val.*synset.*\.txt")

#: What the authors published: a list of its own, for shiftdata's own corruptions may become more.
CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur"),
    *("zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate"),
    *("jpeg_compression", "speckle_noise", "gaussian_blur", "spatter", "saturate"),
)
DOMAINS = ("imagenet_1", "imagenet_2", "imagenetv2_1", "imagenetv2_2")
STYLES = (
    *("art", "cartoon", "deviantart", "embroidery", "graffiti", "graphic", "misc", "origami", "painting"),
    *("sculpture", "sketch", "sticker", "tattoo", "toy", "videogame"),
)
SEVERITIES = ("1", "2", "3", "4", "5")
TWICE = "there already, in another folder"


@cache
def classes() -> Mapping[str, tuple[int, str]]:
    """The number and the first name of each ImageNet class, by its WordNet id."""
    lines = CLASSES.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines]
    return {node: (number, name) for number, (node, name) in enumerate(pairs)}


@cache
def labels() -> tuple[str, ...]:
    """The labels of all classes, in order.

    >>> labels()[22], len(labels())
    ('022_bald eagle', 1000)
    """
    return tuple(f"{number:03}_{name}" for number, name in classes().values())


class Photo(NamedTuple):
    """A picture of ImageNet (`train`, `val`) or ImageNetV2 (`v2`), and the number of its class."""

    file: str
    part: str
    number: int

    @property
    def place(self) -> tuple[str, ...]:
        """Where ImageFolder lists it among those of its part: folders and names go as texts."""
        path = PurePosixPath(self.file)
        node = (TRAIN.fullmatch(path.stem) or [""])[0].partition("_")[0]
        return node or path.parent.name, path.name


def photos(tree: Tree, wanted: Container[int]) -> Iterator[Photo | Odd]:
    """The pictures of some classes, by their names, wherever they lie; a second copy is odd."""
    listed, seen = _validation(tree), set[tuple[str, str]]()
    for file in tree.files:
        one = _photo(file, listed) if file.lower().endswith(ENDINGS) else None
        if isinstance(one, Photo):
            if one.number not in wanted:
                continue
            name = one.part, file.rpartition("/")[2] if one.part != "v2" else "/".join(one.place)
            if name in seen:
                one = Odd(file=file, why=TWICE)
            seen.add(name)
        if one is not None:
            yield one


def _photo(file: str, listed: Mapping[str, str]) -> Photo | Odd | None:
    """What a path names; None where it is of another dataset."""
    path = PurePosixPath(file)
    above, folder = path.parts[:-1], path.parent.name
    if trained := TRAIN.fullmatch(path.stem):
        part, node = "train", trained[1]
    elif VALIDATION.fullmatch(path.stem):
        if set(above) & {*CORRUPTIONS}:
            return None
        part, node = "val", folder if NODE.fullmatch(folder) else listed.get(path.stem, "")
        if not node:
            return Odd(
                file=file, why=f"its class is not known: neither its folder nor a table {SOLUTION} says it"
            )
    elif any(SECOND in level.lower() for level in above):
        number = int(folder) if folder.isdecimal() and len(folder) < 4 else -1
        if number < 0:
            return Odd(file=file, why="not in a folder with the number of a class")
        return Photo(file, "v2", number)
    else:
        named = f"{folder}_<number> or ILSVRC2012_val_<number>"
        return Odd(file=file, why=f"its name is not {named}") if NODE.fullmatch(folder) else None
    if NODE.fullmatch(folder) and folder != node:
        return Odd(file=file, why=f"its name is of {node}, and it is in the folder of another class")
    if node not in classes():
        return Odd(file=file, why=f"{node} is not one of the 1,000 classes")
    return Photo(file, part, classes()[node][0])


def _validation(tree: Tree) -> dict[str, str]:
    """The class of each validation picture by its name, where a table in the tree says it."""
    for file in tree.files:
        name = file.rpartition("/")[2].lower()
        if name == SOLUTION:
            rows = list(csv.reader(io.StringIO(tree.read(file).decode("utf-8-sig", "replace"))))[1:]
            return {row[0]: row[1].split(" ")[0] for row in rows if len(row) == 2}
        if LINES.fullmatch(name):
            nodes = tree.read(file).decode("utf-8-sig", "replace").split()
            return {f"ILSVRC2012_val_{number:08}": node for number, node in enumerate(nodes, 1)}
    return {}


@dataclass(frozen=True, kw_only=True)
class Breeds:
    """The pictures of some superclasses: `imagenet_1` and `imagenetv2_1` are of their source sub-populations.

    `imagenet_2` and `imagenetv2_2` are of the target ones. Training and validation pictures of ImageNet are
    in one domain, and in lists of those names.
    """

    code_version: ClassVar[int] = 1

    superclasses: Sequence[Superclass]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of the classes, in their lists; then the domains without any."""
        of: dict[int, tuple[str, int]] = {}
        for one in self.superclasses:
            for half, numbers in enumerate((one.source, one.target), 1):
                of |= dict.fromkeys(numbers, (one.name, half))
        parts: dict[str, list[Photo]] = defaultdict(list)
        for found in photos(tree, of):
            if isinstance(found, Odd):
                yield found
            else:
                parts[found.part].append(found)
        there = set[str]()
        for part, mine in parts.items():
            for place, photo in enumerate(sorted(mine, key=lambda one: one.place)):
                label, half = of[photo.number]
                domain = f"imagenet{'v2' * (part == 'v2')}_{half}"
                lists = {ORDER: place} if part == "v2" else {ORDER: place, part: place}
                there.add(domain)
                yield Row(
                    file=photo.file,
                    label=label,
                    nuisance=domain,
                    more={"class": photo.number, LISTS: {**lists}},
                )
        for domain in DOMAINS:
            if domain not in there:
                yield Odd(file=domain, why=NO_PICTURE)


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The validation pictures of ImageNet, and ImageNetV2, in all classes."""

    code_version: ClassVar[int] = 1
    domains: ClassVar[Mapping[str, str]] = {"val": "imagenet_val", "v2": "imagenetv2"}

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture that is not of the training; then the domains without any."""
        there = set[str]()
        for found in photos(tree, range(len(labels()))):
            if isinstance(found, Odd):
                yield found
            elif domain := self.domains.get(found.part):
                there.add(domain)
                more = {"class": found.number}
                yield Row(file=found.file, label=labels()[found.number], nuisance=domain, more=more)
        for domain in self.domains.values():
            if domain not in there:
                yield Odd(file=domain, why=NO_PICTURE)


@dataclass(frozen=True, kw_only=True)
class Renditions:
    """ImageNet-R: `<WordNet id>/<style>_<number>.jpg`."""

    code_version: ClassVar[int] = 1

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of a class and a style."""
        for file in tree.files:
            if not file.lower().endswith(ENDINGS):
                continue
            path = PurePosixPath(file)
            node, style = path.parent.name, path.stem.rpartition("_")[0]
            if node not in classes():
                yield Odd(file=file, why="not in the folder of one of the 1,000 classes")
            elif style not in STYLES:
                yield Odd(file=file, why=f"its name is not <style>_<number> with one of {len(STYLES)} styles")
            else:
                number, _ = classes()[node]
                yield Row(file=file, label=labels()[number], nuisance=style, more={"class": number})


@dataclass(frozen=True, kw_only=True)
class Corrupted:
    """ImageNet-C: `<corruption>/<severity>/<WordNet id>/ILSVRC2012_val_<number>.JPEG`.

    A validation picture is the origin of all its corruptions. One that lacks a severity which others have is
    left out of that corruption.
    """

    code_version: ClassVar[int] = 1

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture that a corruption has in all severities."""
        of: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
        for file in filter(lambda file: file.lower().endswith(ENDINGS), tree.files):
            path = PurePosixPath(file)
            corruption, severity, node = ("", "", "", *path.parts[:-1])[-3:]
            name = VALIDATION.fullmatch(path.stem)
            if name is None or corruption not in CORRUPTIONS or severity not in SEVERITIES:
                yield Odd(file=file, why="not <corruption>/<1 to 5>/<class>/ILSVRC2012_val_<number>.JPEG")
            elif node not in classes():
                yield Odd(file=file, why=f"{node} is not one of the 1,000 classes")
            elif severity in of[corruption, name[1]]:
                yield Odd(file=file, why=TWICE)
            else:
                number, _ = classes()[node]
                of[corruption, name[1]][severity] = Row(
                    file=file,
                    label=labels()[number],
                    nuisance=corruption,
                    severity=float(severity),
                    origin=name[1],
                    stem=f"{name[1]} {severity}",
                    more={"class": number},
                )
        severities = {severity for rows in of.values() for severity in rows}
        for rows in of.values():
            lacking = ", ".join(sorted(severities - {*rows}))
            for row in rows.values():
                yield Odd(file=row.file, why=f"missing in severity {lacking}") if lacking else row
