"""Stylized Meta-Album, pictures of a set and each painted in 20 styles; Meta-Album, pictures of many sets."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from builders.raw.found import Found, Odd, Row
from builders.raw.pictures import CLASSES, Picture, merged, pictures, plain, stem_of
from builders.raw.releases import FORMS, PARTS, Release, releases
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
        read = [(release, [*pictures(release, STYLE_NAMES)]) for release in releases(tree, self.set, "SMA")]
        every = [(at.base, each) for at, found in read for each in found if isinstance(each, Picture)]
        if every and not any(picture.style for _, picture in every):
            raise InputError(self._no_style(tree, read))
        untouched = {(plain(picture.label), picture.name) for _, picture in every if not picture.style}
        for release, found in read:
            painted = [each for each in found if isinstance(each, Picture) and each.style]
            if (named := _by_name(painted, untouched)) is None:
                bare = [picture for base, picture in every if base == release.base and not picture.style]
                named = _in_order(painted, bare) or [replace(each, origin_by=ITSELF) for each in painted]
                file = release.table or release.folder or tree.place.name
                yield Odd(file=file, why=f"{MAY_LEAK}: {WHY[named[0].origin_by]}")
            found[:] = [*(each for each in found if isinstance(each, Odd) or not each.style), *named]
        yield from merged(read)

    def _no_style(self, tree: Tree, read: Sequence[tuple[Release, Sequence[Picture | Odd]]]) -> str:
        odd = [f"{each.file}: {each.why}" for _, found in read for each in found if isinstance(each, Odd)]
        tables = [f"{at.table} has {', '.join(at.rows[0])}" for at, _ in read if at.rows]
        return (
            f"{tree.place} has no picture of {self.set} whose style is known "
            f"({(odd + tables + ['no table'])[0]}). A column of labels.csv says it (STYLE, or CATEGORY as "
            "<class>_<style>), a folder stylized/<class>_<style>/ or the name of the picture. Untouched "
            f"pictures have none: the others are in the release {self.set}_STY"
        )


@dataclass(frozen=True, kw_only=True)
class MetaAlbum:
    """The pictures of one set of Meta-Album, of the `largest` classes by pictures.

    Reads Meta-Album's releases, or folders of classes as the source of a set has them on Kaggle
    (`train/<class>/`, `valid/`, `test/`).
    """

    code_version: ClassVar[int] = 2

    set: str
    largest: int = 20

    def rows(self, tree: Tree) -> Iterator[Found]:
        """Every picture of Extended, and of Mini; which of them is in Mini stands in its bases."""
        untouched = [each for each in releases(tree, self.set, "Meta-Album") if not each.stylized]
        found = list(merged((release, list(pictures(release))) for release in untouched))
        counts = Counter(row.label for row in found if isinstance(row, Row))
        if len(counts) > self.largest and all(release.base in PARTS for release in untouched):
            raise InputError(
                f"{tree.place} has the Mini release of {self.set} alone, where all {len(counts)} classes are "
                f"of one size: its {self.largest} largest classes are known from Extended"
            )
        largest = sorted(counts, key=lambda label: (-counts[label], label))[: self.largest]
        yield from (row for row in found if isinstance(row, Odd) or row.label in largest)


def _by_name(painted: Sequence[Picture], untouched: Collection[tuple[str, str]]) -> list[Picture] | None:
    """Name the untouched picture of each stylized one, by the way in which most of them agree.

    A way agrees if it tells the pictures of a group apart, and leads to names that other styles of the class
    have too; best is that which leads to most untouched pictures. None if there is no such way.
    """
    are_several = len({picture.style for picture in painted}) > 1
    enough = AGREE * (len(painted) if are_several else min(len(painted), len(untouched)))
    best, most = tuple(picture.name for picture in painted), (-1, 0)
    columns = [name for name in (painted[0].row if painted else ()) if name not in CLASSES]
    for names in zip(*(_names_of(picture, columns) for picture in painted), strict=True):
        keys = [(plain(each.label), name, each.style) for each, name in zip(painted, names, strict=True)]
        styles = Counter(key[:2] for key in {*keys} if key[1])
        known = sum(key[:2] in untouched for key in keys)
        shared = sum(styles[key[:2]] > 1 or key[:2] in untouched for key in keys)
        if shared >= max(1, enough) and len({*keys}) >= APART * len(keys) and (known, shared) > most:
            best, most = names, (known, shared)
    if painted and most[0] < 0 and (untouched or are_several):
        return None
    return [replace(each, name=name or each.name) for each, name in zip(painted, best, strict=True)]


def _names_of(picture: Picture, columns: Sequence[str]) -> list[str]:
    """The names that its untouched picture may have: those in the table, its own, and parts of this."""
    cells = (picture.row.get(column, "") for column in columns)
    flat, style = f"_{picture.name}_", f"_{picture.style}_"
    return [
        *(plain(stem_of(cell.replace("\\", "/"))) for cell in cells),
        picture.name,
        flat.replace(style, "_", 1).strip("_"),
        flat.replace(f"_{plain(picture.label)}_", "_", 1).replace(style, "_", 1).strip("_"),
        picture.name.rpartition(f"_{picture.style}")[0].removesuffix("_stylized"),
        picture.name.partition("_")[2],
        picture.name.rpartition("_")[0],
    ]


def _in_order(painted: Sequence[Picture], contents: Collection[Picture]) -> list[Picture]:
    """Take the k-th rows of a class in its styles to show one picture; nothing where rows have no such order.

    They have it if each style of a class has as many, in a stretch of its own or in rounds of all styles. A
    stretch sorted by names that are no numbers has the order of these names, which means nothing.
    """
    groups: dict[str, dict[str | None, list[Picture]]] = defaultdict(lambda: defaultdict(list))
    in_rows: dict[str, list[str | None]] = defaultdict(list)
    for picture in painted:
        groups[plain(picture.label)][picture.style].append(picture)
        in_rows[plain(picture.label)].append(picture.style)
    named, names = list[Picture](), list[list[str]]()
    for label, of_style in groups.items():
        each = len(in_rows[label]) // len(of_style)
        if in_rows[label] not in ([style for style in of_style for _ in range(each)], [*of_style] * each):
            return []
        origins = [picture.name for picture in contents if picture.row and plain(picture.label) == label]
        if len(origins) != each:
            first, group = next(iter(of_style.items()))
            origins = [f"{first} {picture.name}" for picture in group]
        for group in of_style.values():
            names.append([picture.name for picture in group])
            pairs = zip(group, origins, strict=True)
            named += [replace(picture, origin_by=ORDER, origin=origin) for picture, origin in pairs]
    are_numbers = all(re.fullmatch(r"\D*\d+", picture.name) for picture in painted)
    has_order = are_numbers or names != [*map(sorted, names)]
    return named if has_order and all(picture.row for picture in painted) else []
