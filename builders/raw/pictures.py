"""The pictures of releases of Meta-Album and SMA, by the rows of tables and by folders."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from posixpath import basename, splitext
from typing import TypeAlias

from builders.albums.folder import ENDINGS
from builders.raw.found import Found, Odd, Row
from builders.raw.releases import CONTENT, FOLDERS, FORMS, IMAGES, PARTS, SPLITS, STYLIZED, Release

CLASSES, PATHS = FORMS["columns"]["class"], FORMS["columns"]["path"]
UNLISTED = "labels.csv does not list it, and no folder says what it shows"
ABSENT = "labels.csv lists it, and it is not there"
NO_STYLE = "no style of Stylized Meta-Album is in its folder or table"
#: Label, style and name of a picture.
Key: TypeAlias = tuple[str, str | None, str]
Finder: TypeAlias = Callable[[Sequence[str], str, str | None], str | None]
NAMES = 10_000  # of classes, and of classes in styles, that are remembered as they are read


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of a release: its class, the style that it was painted in, and its name within these.

    `row` is that of the table, if it is listed. Where no name says of which untouched picture it is,
    `origin_by` says what does, and `origin` which.
    """

    file: str
    label: str
    name: str
    style: str | None = None
    row: Mapping[str, str] = field(default_factory=dict)
    origin_by: str = ""
    origin: str | None = None


def pictures(release: Release, styles: Sequence[str] = ()) -> Iterator[Picture | Odd]:
    """Read the pictures that the table lists, then those whose folder says what they show."""
    files = {path: file for path, file in release.files.items() if path.lower().endswith(ENDINGS)}
    has_tops = any(path.lower().startswith(tuple(f"{top}/" for top in FOLDERS)) for path in files)
    used = set()
    for picture in _listed(release, files, styles):
        used.add(picture.file)
        yield picture
    for path, file in files.items():
        if file in used:
            continue
        label, style = shown_by(path, styles)
        if not label or (has_tops and not style and path.count("/") == 1):
            yield Odd(file=file, why=NO_STYLE if STYLIZED in _above(path) else UNLISTED)
        else:
            yield Picture(file=file, label=label, name=_name(path), style=style)


def _listed(release: Release, files: Mapping[str, str], styles: Sequence[str]) -> Iterator[Picture | Odd]:
    """Read the rows of the table; the column of styles is known by its values, others by their names."""
    listed = [
        (row, [row[name].replace("\\", "/") for name in PATHS if row.get(name)]) for row in release.rows
    ]
    rows = [(row, paths) for row, paths in listed if paths]
    columns = [name for name in (rows[0][0] if rows else ()) if name not in PATHS]
    values = {name: {plain(row[name]) for row, _ in rows} for name in columns}
    allowed = {*styles, *FORMS["untouched"]}
    of_style = next((name for name in values if values[name] & {*styles} and values[name] <= allowed), "")
    of_class = next((name for name in CLASSES if name in values and name != of_style), "")
    if not of_class:
        if release.table:
            why = "it should have the columns FILE_NAME and CATEGORY, or info.json say how they are named"
            yield Odd(file=release.table, why=f"{why} (it has {', '.join(*map(sorted, release.rows[:1]))})")
        return
    groups = {row[of_class]: split_group(row[of_class], styles) for row, _ in rows}
    is_grouped = _are_most(style for _, style in groups.values())
    if not is_grouped:  # classes, of which some end in the name of a style
        groups = {category: (mended(category), None) for category in groups}
    in_names = [_style_of(stem_of(paths[0]), row[of_class], styles) for row, paths in rows]
    if of_style or is_grouped or not _are_most(in_names):
        in_names = [None] * len(rows)
    find = _finder(files, {plain(label) for label, _ in groups.values()}, styles)
    for (row, paths), in_name in zip(rows, in_names, strict=True):
        label, style = groups[row[of_class]]
        if of_style:
            style = plain(row[of_style]) if plain(row[of_style]) in styles else None
        in_path = next(filter(None, (shown_by(path, styles)[1] for path in paths)), None)
        path = find(paths, plain(label), style or in_path)
        if path is None or label in ("", "NAN"):
            file = "/".join(filter(None, (release.folder, *paths[0].split("/")[-2:])))
            yield Odd(file=file, why=ABSENT if path is None else "labels.csv gives it no category")
            continue
        if not of_style and not style:
            style = shown_by(path, styles)[1] or in_name
        yield Picture(file=files[path], label=label, name=_name(path), style=style, row=row)


def _are_most(styles: Iterable[str | None]) -> bool:
    known = [style is not None for style in styles]
    return 2 * sum(known) > len(known)


def _name(path: str) -> str:
    """Return what a picture is called; train/, valid/ and test/ may have the same names."""
    *_, split, _, name = "", "", *path.lower().split("/")
    return plain(stem_of(f"{split}_{name}" if split in SPLITS else name))


def _finder(files: Collection[str], classes: Collection[str], styles: Sequence[str]) -> Finder:
    """Return what finds the file of a row by the first of its paths, its class and its style, if it has one.

    A path leads to a file of its name, with or without the ending, in the folder of the class or group. Other
    folders, such as images/ or one for each thousand files, say nothing. A painted picture is never in
    content/, where untouched ones have the same names.
    """
    known: dict[Key, str | None] = {}
    for path in files:
        label, style = shown_by(path, styles)
        if not style and STYLIZED in _above(path):
            continue
        label = plain(label) if style or plain(label) in classes else ""
        for name in {basename(path).lower(), stem_of(path).lower()}:
            key = label, CONTENT if CONTENT in _above(path) else style, name
            known[key] = None if key in known else path

    def find(paths: Sequence[str], label: str, style: str | None) -> str | None:
        exact = (path for path in paths if path in files and not (style and CONTENT in _above(path)))
        keys = (
            (folder, group, name)
            for group in (style or CONTENT, None)
            for path in paths
            for folder in (label, "")
            for name in (basename(path).lower(), stem_of(path).lower())
        )
        return next(exact, None) or next(filter(None, map(known.get, keys)), None)

    return find


def merged(read: Iterable[tuple[Release, Sequence[Picture | Odd]]]) -> Iterator[Found]:
    """Yield the rows of several releases, the most complete first: what Mini has is a part of Extended.

    What two of them have is one row, and in the base of each: Mini's is known by its bytes, or else its name.
    """
    first: dict[Key, Picture] = {}
    bases: dict[Key, set[str]] = defaultdict(set)
    spelled: dict[str, str] = {}
    for release, found in read:
        yield from (odd for odd in found if isinstance(odd, Odd))
        pictures = [picture for picture in found if isinstance(picture, Picture)]
        counts = Counter((plain(picture.label), picture.style, picture.name) for picture in pictures)
        earlier = {**first} if release.base in PARTS else {}
        sizes: dict[tuple[object, ...], list[Key]] = defaultdict(list)
        for key, picture in earlier.items():
            sizes[(*key[:2], release.tree.files[picture.file])].append(key)
        for picture in pictures:
            label = plain(picture.label)
            key = label, picture.style, picture.name
            if counts[key] > 1:  # 1.jpg may be beside 1.png, or in two folders
                key = label, picture.style, picture.file
            alike = sizes[label, picture.style, release.tree.files[picture.file]]
            data = release.tree.read(picture.file) if alike else b""
            alike.sort(key=key.__ne__)  # that of the same name first
            equal = next((each for each in alike if release.tree.read(first[each].file) == data), None)
            if key in earlier and picture.origin_by:  # a number that another picture has there
                key = label, picture.style, f"{key[2]} {release.base}"
            key = equal or key
            first.setdefault(key, picture)
            bases[key].add(release.base)
            spelled.setdefault(label, picture.label)
    for (label, style, name), picture in first.items():
        more = {"origin_by": picture.origin_by} if picture.origin_by else {}
        if picture.row.get("STYLE_PATH"):
            more["style_picture"] = basename(picture.row["STYLE_PATH"])
        yield Row(
            file=picture.file,
            label=spelled[label],
            nuisance=style,
            origin=picture.origin if picture.origin_by else name,
            stem=name,
            bases=tuple(sorted(bases[label, style, name])),
            more=more,
        )


def shown_by(path: str, styles: Sequence[str]) -> tuple[str, str | None]:
    """Return the class and the style that the folders around a file say; "" and None if they do not.

    >>> shown_by("stylized/otter_wave/1.jpg", ("wave",)), shown_by("otter/wave/1.jpg", ("wave",))
    (('otter', 'wave'), ('otter', 'wave'))
    >>> shown_by("content/sea_wave/1.jpg", ("wave",)), shown_by("images/1.jpg", ("wave",))
    (('sea_wave', None), ('', None))
    """
    *_, outer, inner, _ = "", "", *path.split("/")
    if outer.lower() in (CONTENT, *SPLITS):
        return mended(inner), None
    for label, style in ((outer, inner), (inner, outer)):
        if plain(style) in styles and label.lower() not in ("", *FOLDERS):
            return mended(label), plain(style)
    label, of_group = split_group(inner, styles)
    is_class = inner.lower() not in FOLDERS and outer.lower() in ("", IMAGES)
    return (label, of_group) if of_group else (mended(inner) if is_class else "", None)


def _above(path: str) -> list[str]:
    """Return the folders of a path, in lower case."""
    return path.lower().split("/")[:-1]


def stem_of(path: str) -> str:
    """Return the last part of a path, without its ending."""
    return splitext(basename(path))[0]


@lru_cache(NAMES)
def mended(text: str) -> str:
    """Undo in a name what a wrong encoding has made of it.

    >>> mended("PunaisÃ© "), mended("Punaisé"), mended("polar_bear")
    ('Punaisé', 'Punaisé', 'polar_bear')
    """
    try:
        return text.encode("latin-1").decode().strip()
    except UnicodeError:
        return text.strip()


@lru_cache(NAMES)
def plain(text: str) -> str:
    """Reduce a name to what folders and tables spell the same.

    >>> plain("Polar bear"), plain("polar_bear")
    ('polar_bear', 'polar_bear')
    """
    return re.sub(r"[\W_]+", "_", unicodedata.normalize("NFKC", mended(text)).casefold()).strip("_")


@lru_cache(NAMES)
def split_group(group: str, styles: Sequence[str]) -> tuple[str, str | None]:
    """Split the name of a class and a style; both may contain `_`.

    >>> split_group("polar_bear_land_art", ("wave", "land_art")), split_group("SEA wave", ("wave",))
    (('polar_bear', 'land_art'), ('SEA', 'wave'))
    """
    words = "|".join(style.replace("_", r"[\W_]+") for style in styles)
    match = re.fullmatch(rf"(.+?)[\W_]+({words})", mended(group), re.IGNORECASE) if styles else None
    return (match[1], plain(match[2])) if match else (mended(group), None)


def _style_of(stem: str, label: str, styles: Sequence[str]) -> str | None:
    """Return the style in a flat name."""
    words = f"_{plain(stem)}_".replace(f"_{plain(label)}_", "_", 1)
    return next((style for style in styles if f"_{style}_" in words), None)
