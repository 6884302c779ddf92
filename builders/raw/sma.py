"""Stylized Meta-Album as its authors release it: pictures of a set, and each painted in 20 styles."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from builders.raw.album import Found, Odd
from builders.raw.pictures import CLASSES, Picture, merged, pictures, plain, stem_of
from builders.raw.releases import FORMS, Release, releases
from builders.raw.tree import Tree
from shiftdata.data.format.written import MAY_LEAK
from shiftdata.errors import InputError

STYLE_NAMES = tuple(FORMS["styles"])
#: A way to name untouched pictures must agree for this part of the stylized, and tell that many apart.
AGREE, APART = 0.5, 0.9
ORDER, ITSELF = "order of rows", "itself"
WHY = {
    ORDER: "no name says which picture was painted. Every style of a class has as many rows, in order: the "
    "k-th of each are taken to show one picture",
    ITSELF: "no name, column or order of rows says which picture was painted: each stylized picture is an "
    "origin of its own, and what it shows may be in train in one style and in test in another",
}


@dataclass(frozen=True, kw_only=True)
class Sma:
    """One set of Stylized Meta-Album: untouched pictures, and each in 20 styles, which share its origin.

    Reads what the authors' code reads (`content/<class>/`, `stylized/<class>_<style>/`), and the form of
    Meta-Album (`images/`, `labels.csv`); untouched and stylized, Mini and Extended may lie beside each other.
    Photographs of styles are never read.
    """

    code_version: ClassVar[int] = 2

    set: str

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture; which of the stylized ones are in Mini stands in their bases."""
        read = [(each, [*pictures(each, STYLE_NAMES)]) for each in releases(tree, self.set, "SMA")]
        every = [(at, each) for at, found in read for each in found if isinstance(each, Picture)]
        if every and not any(picture.style for _, picture in every):
            raise InputError(_nothing(tree, self.set, read))
        untouched: dict[str, dict[str, str]] = defaultdict(dict)
        for _, picture in every:
            if picture.style is None:
                untouched[plain(picture.label)][plain(picture.name)] = picture.name
        for release, found in read:
            painted = [each for each in found if isinstance(each, Picture) and each.style]
            bare = [picture for at, picture in every if at.base == release.base and not picture.style]
            if (named := _by_name(painted, untouched)) is None:
                named = _in_order(painted, bare) or [replace(each, origin_by=ITSELF) for each in painted]
                file = release.table or release.folder or tree.place.name
                yield Odd(file=file, why=f"{MAY_LEAK}: {WHY[named[0].origin_by]}")
            found[:] = [each for each in found if isinstance(each, Odd) or not each.style] + named
        yield from merged(read)


def _nothing(tree: Tree, of: str, read: Sequence[tuple[Release, Sequence[Picture | Odd]]]) -> str:
    """Say why no picture is stylized, and where it would stand."""
    odd = [each for _, found in read for each in found if isinstance(each, Odd)]
    reasons = [f" {len(odd):,} files are left out, such as {odd[0].file}: {odd[0].why}." for _ in odd[:1]]
    tables = [f" {at.table} has the columns {', '.join(at.rows[0])}." for at, _ in read if at.rows]
    return (
        f"{tree.place} has no picture of {of} whose style is known.{''.join(reasons or tables[:1])} A column "
        "of a table says it (STYLE, or CATEGORY as <class>_<style>), a folder stylized/<class>_<style>/ or a "
        f"name; the untouched pictures have none: the others are in the release {of}_STY"
    )


def _by_name(painted: Sequence[Picture], untouched: Mapping[str, Mapping[str, str]]) -> list[Picture] | None:
    """Name the untouched picture of each stylized one, by the way in which most of them agree.

    A way agrees if it tells the pictures of a group apart, and leads to names that other styles of the class
    have too; best is that which leads to most untouched pictures. None if there is no such way.
    """
    columns = [name for name in (painted[0].row if painted else ()) if name not in CLASSES]
    ways: list[Callable[[Picture], str]] = [
        *(partial(_cell, column) for column in columns),
        lambda picture: picture.name,
        lambda picture: _without(picture, f"_{picture.style}_"),
        lambda picture: _without(picture, f"_{plain(picture.label)}_", f"_{picture.style}_"),
        lambda picture: plain(picture.name).partition("_")[2],
        lambda picture: plain(picture.name).rpartition("_")[0],
    ]
    are_several = len({picture.style for picture in painted}) > 1
    enough = AGREE * (len(painted) if are_several else min(len(painted), sum(map(len, untouched.values()))))
    best, most = [picture.name for picture in painted], (-1, 0)
    for way in ways:
        names = list(map(way, painted))
        keys = [(plain(each.label), name, each.style) for each, name in zip(painted, names, strict=True)]
        styles = Counter(key[:2] for key in {*keys})
        known = [plain(name) in untouched.get(label, ()) for label, name, _ in keys]
        shared = sum(
            bool(key[1]) and (styles[key[:2]] > 1 or at) for key, at in zip(keys, known, strict=True)
        )
        if shared >= max(1, enough) and len({*keys}) >= APART * len(keys) and (sum(known), shared) > most:
            best, most = names, (sum(known), shared)
    if painted and most[0] < 0 and (untouched or are_several):
        return None
    spelled = [
        untouched.get(plain(each.label), {}).get(plain(name), name)
        for each, name in zip(painted, best, strict=True)
    ]
    return [replace(each, name=name or each.name) for each, name in zip(painted, spelled, strict=True)]


def _cell(column: str, picture: Picture) -> str:
    return stem_of(picture.row.get(column, "").replace("\\", "/"))


def _without(picture: Picture, *words: str) -> str:
    """Return a flat name without the class or style in it."""
    name = f"_{plain(picture.name)}_"
    for word in words:
        name = name.replace(word, "_", 1)
    return name.strip("_")


def _in_order(painted: Sequence[Picture], bare: Collection[Picture]) -> list[Picture]:
    """Take the k-th rows of a class in its styles to show one picture; nothing where rows have no such order.

    They have it if each style of a class has as many, in a stretch of its own or in rounds of all styles. A
    stretch sorted by names that are no numbers has the order of these names, which means nothing.
    """
    groups: dict[str, dict[str | None, list[Picture]]] = defaultdict(lambda: defaultdict(list))
    in_rounds: dict[str, list[str | None]] = defaultdict(list)
    for picture in sorted(painted, key=lambda picture: picture.number):
        groups[plain(picture.label)][picture.style].append(picture)
        in_rounds[plain(picture.label)].append(picture.style)
    for label, of_style in groups.items():
        each = len(in_rounds[label]) // len(of_style)
        stretches = [style for style in of_style for _ in range(each)]
        if in_rounds[label] not in (stretches, [*of_style] * each):
            return []
    names = [
        [picture.name for picture in group] for of_style in groups.values() for group in of_style.values()
    ]
    are_numbers = all(re.fullmatch(r"\D*\d+", name) for group in names for name in group)
    if any(picture.number < 0 for picture in painted) or (not are_numbers and names == [*map(sorted, names)]):
        return []
    named = []
    for label, of_style in groups.items():
        first, *_ = of_style
        origins = [f"{first} {picture.name}" for picture in of_style[first]]
        contents = sorted((each for each in bare if plain(each.label) == label), key=lambda each: each.number)
        if len(contents) == len(origins) and contents[0].number >= 0:
            origins = [picture.name for picture in contents]
        pairs = (pair for group in of_style.values() for pair in zip(group, origins, strict=True))
        named += [replace(picture, origin_by=ORDER, origin=origin) for picture, origin in pairs]
    return named
