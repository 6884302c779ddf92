"""CNS-Bench: pictures of one class and seed in shifts of growing scale, straight from its zip."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

from builders.albums.folder import ENDINGS
from builders.raw.album import Found, Odd, Row
from builders.raw.records import by_name, lists_in
from builders.raw.tree import Tree
from shiftdata.errors import InputError

ANNOTATIONS = "annotations_cns.json"
CLASS = re.compile(r"(\d{1,3})(?:[ _-]+(.+))?")
FILE = re.compile(r"seed_(\d+)_scale_(\d+)\.(?:jpe?g|png)", re.IGNORECASE)


class Place(NamedTuple):
    """Which picture a path names; `number` is that of the ImageNet class, `scale` in thousandths."""

    shift: str
    number: int
    seed: int
    scale: int


@dataclass(frozen=True, kw_only=True)
class CnsBench:
    """`<shift>/<number>_<class>/seed_<seed>_scale_<1000 scale>.jpg`, and a JSON file that lists them.

    `shifts` gives each shift the words of which one is in its folder's name, however the rest is spelled. A
    label is the number and the name of an ImageNet class, as the folders have them: `022_bald eagle`. Where
    the list is there, it says which pictures count. A trajectory that lacks a scale that others have is left
    out.
    """

    code_version: ClassVar[int] = 1

    shifts: Mapping[str, Sequence[str]]

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of a whole trajectory; its class and seed are its origin."""
        listed = yield from self._listed(tree)
        files: dict[Place, str] = {}
        names: dict[int, Counter[str]] = defaultdict(Counter)
        for file in tree.files:
            place, name = self._place(file)
            if place is None:
                if file.lower().endswith(ENDINGS):
                    yield Odd(file=file, why=name)
            elif listed is not None and place not in listed:
                yield Odd(file=file, why=f"{ANNOTATIONS} does not list it")
            elif place in files:
                raise InputError(
                    f"{tree.place} has one picture at two places, {files[place]} and {file}: move one of the "
                    "copies away, or give the folder above the right one"
                )
            else:
                files[place] = file
                names[place.number][name] += 1
        for place, path in (listed or {}).items():
            if place not in files:
                yield Odd(file=path, why=f"{ANNOTATIONS} lists it, and it is not there")
        yield from _trajectories(files, {number: _label(number, names[number]) for number in names})

    def _listed(self, tree: Tree) -> Generator[Odd, None, dict[Place, str] | None]:
        """The pictures that the annotations list, and how; None without annotations."""
        file = by_name(tree).get(ANNOTATIONS)
        if file is None:
            return None
        (images,) = lists_in(tree, file, "images")
        listed: dict[Place, str] = {}
        for image in images:
            path = str(image.get("image"))
            place, why = self._place(path)
            if place is None:
                yield Odd(file=path, why=f"{ANNOTATIONS} lists it, and it is {why}")
            elif image.get("class", place.number) != place.number:
                yield Odd(file=path, why=f"{ANNOTATIONS} gives it the class {image['class']}")
            else:
                listed[place] = path
        return listed

    @cached_property
    def _folders(self) -> dict[str, str]:
        """The shift of each folder that was met, "" for none."""
        return {}

    def _place(self, path: str) -> tuple[Place | None, str]:
        """Which picture a path names, and the name of its class; or why it names none."""
        shift, of_class, file = ["", "", *path.replace("\\", "/").split("/")][-3:]
        class_, one = CLASS.fullmatch(of_class), FILE.fullmatch(file)
        if class_ is None or one is None:
            return None, "not <shift>/<number>_<class>/seed_<seed>_scale_<scale>.jpg"
        if (known := self._folders.get(shift)) is None:
            words = {*re.findall(r"[a-z]+", shift.lower())}
            names = [name for name, meant in self.shifts.items() if words & {*meant}]
            known = self._folders[shift] = names[0] if len(names) == 1 else ""
        if not known:
            return None, f"in the folder {shift!r}, which is not one of the shifts"
        return Place(known, int(class_[1]), int(one[1]), int(one[2])), class_[2] or ""


def _trajectories(files: Mapping[Place, str], labels: Mapping[int, str]) -> Iterator[Found]:
    scales = {place.scale for place in files}
    present: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for place in files:
        present[place[:3]].add(place.scale)
    for place, file in files.items():
        if lacking := scales - present[place[:3]]:
            named = ", ".join(f"{scale / 1000:g}" for scale in sorted(lacking))
            yield Odd(file=file, why=f"its trajectory lacks the scale {named}")
            continue
        yield Row(
            file=file,
            label=labels[place.number],
            nuisance=place.shift,
            severity=place.scale / 1000,
            origin=f"seed_{place.seed:04}",
            stem=f"seed_{place.seed:04}_scale_{place.scale:04}",
            more={"class": place.number, "seed": place.seed},
        )


def _label(number: int, names: Counter[str]) -> str:
    """One name for a class, should shifts spell it differently: the most frequent, then the first."""
    name = min(names, key=lambda name: (-names[name], name))
    return f"{number:03}_{name}" if name else f"{number:03}"
