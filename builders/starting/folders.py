"""Guess the meaning of the levels of folders: classes, domains, or nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from builders.albums.folder import ENDINGS, SKIPPED, TABLE
from builders.albums.table_file import ENDINGS as TABLES
from builders.starting.draft import few
from shiftdata.errors import InputError

SPLITS = frozenset(["train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval"])

#: Words in the names of folders that are kinds of picture, places or devices rather than classes.
DOMAIN_WORDS = (
    "amazon art autumn bright camera cartoon center centre city clip clipart dark day dim domain drawing "
    "dslr fog hospital indoor infograph lab night outdoor paint painting phone photo photograph photos "
    "product quickdraw rain real scan scanner site sketch sketches snow spring studio summer synthetic "
    "source target view watercolor watercolour webcam winter"
)
CLEARLY_FEWER = 2


def layout_of(root: Path) -> tuple[str, ...]:
    """The layout that the folders suggest, as `FolderAlbum` takes it; an error where only the owner knows."""
    if (root / TABLE).is_file():
        return ("label",)
    places = _places(root)
    if not places:
        raise _nothing(root)
    depths = sorted({len(levels) for levels in places})
    if len(depths) > 1:
        samples = "; ".join(next(file for at, file in places.items() if len(at) == depth) for depth in depths)
        raise InputError(
            f"the pictures in {root} lie {' and '.join(map(str, depths))} folders deep ({samples}): "
            f"bring them to one depth, or list them in {root / TABLE} with the columns file,label,domain"
        )
    if depths == [0]:
        raise InputError(
            f"the pictures lie in {root} itself: give each class a folder, {root}/<class>/<picture>, or list "
            f"them in {root / TABLE} with the columns file,label"
        )
    names = [sorted({levels[at] for levels in places}) for at in range(depths[0])]
    telling = [at for at, of in enumerate(names) if len(of) > 1 and not SPLITS.issuperset(map(str.lower, of))]
    if depths == [1]:
        telling = [0]
    if len(telling) == 1:
        return _filled(depths[0], dict.fromkeys(telling, "label"))
    if len(telling) == 2:
        first, second = telling
        pairs = {(levels[first], levels[second]) for levels in places}
        if len(pairs) == len(names[second]):  # no name below two others: families of classes
            return _filled(depths[0], {second: "label"})
        if order := _order(names[first], names[second]):
            return _filled(depths[0], dict(zip(telling, order, strict=True)))
    shown = "; below them ".join(few(of) for of in names)
    raise InputError(
        f"{root} has {depths[0]} levels of folders: {shown}. Say which are the classes, and which the "
        f"domains if there are any, such as --layout domain,label or --layout label,domain; {SKIPPED} is a "
        "level that says nothing"
    )


def _filled(depth: int, named: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(named.get(at, SKIPPED) for at in range(depth))


def _order(first: Sequence[str], second: Sequence[str]) -> tuple[str, str] | None:
    """Guess which of two levels is the domain: named like kinds of picture, or clearly fewer than classes."""
    words = [sum(map(_is_domain_word, names)) / len(names) for names in (first, second)]
    if abs(words[0] - words[1]) > 1 / 3:
        return ("domain", "label") if words[0] > words[1] else ("label", "domain")
    if len(second) >= CLEARLY_FEWER * len(first):
        return "domain", "label"
    return ("label", "domain") if len(first) >= CLEARLY_FEWER * len(second) else None


def _is_domain_word(name: str) -> bool:
    words = re.findall(r"[^\W_]+", name.lower())
    return any(word.isdigit() or word.rstrip("0123456789") in DOMAIN_WORDS.split() for word in words)


def _places(root: Path) -> dict[tuple[str, ...], str]:
    """The folders, from the root on, in which pictures lie, each with one of them."""
    places: dict[tuple[str, ...], str] = {}
    for folder, below, files in os.walk(root, followlinks=True):
        levels = Path(folder).relative_to(root).parts
        real = Path(folder).resolve()
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".") and not real.is_relative_to(Path(folder, name).resolve())
        )
        for name in sorted(files):
            if not name.startswith(".") and name.lower().endswith(ENDINGS):
                places.setdefault(levels, "/".join((*levels, name)))
                break
    return places


def _nothing(root: Path) -> InputError:
    tables = [str(path) for path in sorted(root.iterdir()) if path.suffix.lower() in TABLES]
    if tables:
        return InputError(f"{root} has no picture; for a table give its file: {few(tables)}")
    return InputError(
        f"{root} has no picture (a file that ends in {', '.join(ENDINGS)}): expected <class>/<picture> or "
        "<domain>/<class>/<picture>"
    )
