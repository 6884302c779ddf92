"""Stylized Meta-Album as its authors release it: pictures of a set, and each painted in 20 styles."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
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
    "k-th of each are taken to show one picture, which is a guess, above all in Mini, a sample of each style",
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
        untouched = {(plain(picture.label), picture.name) for _, picture in every if not picture.style}
        for release, found in read:
            painted = [each for each in found if isinstance(each, Picture) and each.style]
            bare = [picture for at, picture in every if at.base == release.base and not picture.style]
            if (named := _by_name(painted, untouched)) is None:
                named = _in_order(painted, bare) or [replace(each, origin_by=ITSELF) for each in painted]
                file = release.table or release.folder or tree.place.name
                yield Odd(file=file, why=f"{MAY_LEAK}: {WHY[named[0].origin_by]}")
            found[:] = [*(each for each in found if isinstance(each, Odd) or not each.style), *named]
        yield from merged(read)


def _nothing(tree: Tree, of: str, read: Sequence[tuple[Release, Sequence[Picture | Odd]]]) -> str:
    """Say why no picture is stylized, and where it would stand."""
    odd = [f"{each.file}: {each.why}" for _, found in read for each in found if isinstance(each, Odd)]
    tables = [f"{release.table} has {', '.join(release.rows[0])}" for release, _ in read if release.rows]
    return (
        f"{tree.place} has no picture of {of} whose style is known ({(odd + tables + ['no table'])[0]}). A "
        "column of labels.csv says it (STYLE, or CATEGORY as <class>_<style>), a folder "
        "stylized/<class>_<style>/ or the name of the picture. Untouched pictures have none: the others are "
        f"in the release {of}_STY"
    )


def _by_name(painted: Sequence[Picture], untouched: Collection[tuple[str, str]]) -> list[Picture] | None:
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
        lambda picture: picture.name.partition("_")[2],
        lambda picture: picture.name.rpartition("_")[0],
    ]
    are_several = len({picture.style for picture in painted}) > 1
    enough = AGREE * (len(painted) if are_several else min(len(painted), len(untouched)))
    best, most = [picture.name for picture in painted], (-1, 0)
    for way in ways:
        names = list(map(way, painted))
        keys = [(plain(each.label), name, each.style) for each, name in zip(painted, names, strict=True)]
        styles = Counter(key[:2] for key in {*keys} if key[1])
        known = sum(key[:2] in untouched for key in keys)
        shared = sum(styles[key[:2]] > 1 or key[:2] in untouched for key in keys)
        if shared >= max(1, enough) and len({*keys}) >= APART * len(keys) and (known, shared) > most:
            best, most = names, (known, shared)
    if painted and most[0] < 0 and (untouched or are_several):
        return None
    return [replace(each, name=name or each.name) for each, name in zip(painted, best, strict=True)]


def _cell(column: str, picture: Picture) -> str:
    return plain(stem_of(picture.row.get(column, "").replace("\\", "/")))


def _without(picture: Picture, *words: str) -> str:
    """Return a flat name without the class or style in it."""
    name = f"_{picture.name}_"
    for word in words:
        name = name.replace(word, "_", 1)
    return name.strip("_")


def _in_order(painted: Sequence[Picture], bare: Collection[Picture]) -> list[Picture]:
    """Take the k-th rows of a class in its styles to show one picture; nothing where rows have no such order.

    They have it if each style of a class has as many, in a stretch of its own or in rounds of all styles. A
    stretch sorted by names that are no numbers has the order of these names, which means nothing.
    """
    groups: dict[str, dict[str | None, list[Picture]]] = defaultdict(lambda: defaultdict(list))
    in_rows: dict[str, list[str | None]] = defaultdict(list)
    for picture in painted:
        groups[plain(picture.label)][picture.style].append(picture)
        in_rows[plain(picture.label)].append(picture.style)
    for label, of_style in groups.items():
        each = len(in_rows[label]) // len(of_style)
        if in_rows[label] not in ([style for style in of_style for _ in range(each)], [*of_style] * each):
            return []
    names = [
        [picture.name for picture in group] for of_style in groups.values() for group in of_style.values()
    ]
    are_numbers = all(re.fullmatch(r"\D*\d+", name) for group in names for name in group)
    if not all(picture.row for picture in painted) or (not are_numbers and names == [*map(sorted, names)]):
        return []
    named = []
    for label, of_style in groups.items():
        first, *_ = of_style
        origins = [f"{first} {picture.name}" for picture in of_style[first]]
        contents = [picture.name for picture in bare if picture.row and plain(picture.label) == label]
        origins = contents if len(contents) == len(origins) else origins
        for group in of_style.values():
            pairs = zip(group, origins, strict=True)
            named += [replace(picture, origin_by=ORDER, origin=origin) for picture, origin in pairs]
    return named
