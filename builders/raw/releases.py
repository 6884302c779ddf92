"""Releases on OpenML, of Meta-Album and SMA: `<ID>_<Version>/{images/,labels.csv,info.json}` and the like."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from builders.albums.folder import ENDINGS
from builders.raw.album import Odd
from builders.raw.archives import without_packing
from builders.raw.sources import sources
from builders.raw.tree import Tree
from shiftdata.data.format.names import shown
from shiftdata.errors import InputError

#: The sets of Stylized Meta-Album, by the names that Meta-Album gives them.
SETS = (
    "APL",
    "AWA",
    "BRD",
    "DOG",
    "INS_2",
    "MED_LF",
    "PLT_DOC",
    "PLT_NET",
    "RESISC",
    "RSICB",
    "SPT",
    "TEX_DTD",
)
VERSION = {"MINI": "mini", "MICRO": "micro", "EXT": "extended", "EXTENDED": "extended"}
NAMED = re.compile(
    r"((STYLIZED_)?META_ALBUM_|SMA_)?(?P<set>[A-Z0-9_]+?)(?P<sty>_STY(LIZED)?)?(_(?P<version>MINI|MICRO|EXT(ENDED)?))?"
)
#: Versions that are parts of Extended.
PARTS = ("mini", "micro")
TABLE, INFO = "labels.csv", "info.json"
IMAGES, CONTENT, STYLIZED, STYLES = "images", "content", "stylized", "styles"
#: What info.json may rename.
RENAMED = {"image_column_name": "FILE_NAME", "category_column_name": "CATEGORY"}
UNLISTED = f"{TABLE} does not list it, and no folder says what it shows"
NAMES = 10_000  # of classes, and of classes in styles, that are remembered as they are read
UNNAMED = "no name of a folder says of which set it is, as others here do"
ABSENT = f"{TABLE} lists it, and it is not there"


@dataclass(frozen=True, kw_only=True)
class Release:
    """A folder that was published as one: a version of a set, untouched or stylized.

    `set`, `version` and `source` are empty where no name of a folder says them.
    """

    tree: Tree
    folder: str
    set: str = ""
    version: str = ""
    source: str = ""
    stylized: bool = False
    #: By path within the release, that in the tree.
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return self.version or "extended"

    @cached_property
    def info(self) -> Mapping[str, object]:
        """What info.json says, if there is one that can be read."""
        path = self.find([INFO])
        try:
            said = json.loads(_text(self.read(path))) if path else {}
        except ValueError:
            return {}
        return said if isinstance(said, dict) else {}

    @cached_property
    def table(self) -> str | None:
        """The path of the table of labels within the release."""
        return self.find([TABLE]) or min(
            (path for path in self.files if "/" not in path and path.lower().endswith(TABLE)), default=None
        )

    @cached_property
    def rows(self) -> Sequence[Mapping[str, str]]:
        """The rows of the table, by the names that columns have where nothing is renamed."""
        if self.table is None:
            return ()
        text = _text(self.read(self.table))
        header = text.partition("\n")[0]
        delimiter = max(",;\t", key=header.count)
        renamed = {str(self.info[key]).upper(): name for key, name in RENAMED.items() if self.info.get(key)}
        rows = []
        for row in csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter):
            named = {str(key).strip().upper(): value for key, value in row.items() if isinstance(value, str)}
            rows.append(
                {renamed.get(key, key): value.strip().replace("\\", "/") for key, value in named.items()}
            )
        return rows

    def size(self, path: str) -> int:
        return self.tree.files[self.files[path]]

    def read(self, path: str) -> bytes:
        return self.tree.read(self.files[path])

    def find(self, paths: Iterable[str], *, any_ending: bool = False) -> str | None:
        """The first of some paths that is there, whatever the case of its letters, or its ending."""
        for path in paths:
            if path in self.files:
                return path
            if found := self._by_lower.get(path.lower()):
                return found
            if any_ending and (found := self._by_stem.get(_without_ending(path))):
                return found
        return None

    @cached_property
    def _by_lower(self) -> Mapping[str, str]:
        return {path.lower(): path for path in sorted(self.files, reverse=True)}

    @cached_property
    def _by_stem(self) -> Mapping[str, str]:
        return {
            _without_ending(path): path
            for path in sorted(self.files, reverse=True)
            if path.lower().endswith(ENDINGS)
        }


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of a release: its class, its name within that, and the style that it was painted in."""

    path: str
    label: str
    name: str
    style: str | None = None
    #: Which spelling of a class counts: of a table, of a folder, of a part of a folder's name.
    rank: int = 0
    more: Mapping[str, str] = field(default_factory=dict)


#: A picture, or a path within a release and why it is left out.
Read: TypeAlias = Picture | Odd


def releases(tree: Tree, of: str, source: str) -> tuple[list[Release], list[Odd]]:
    """The releases of a set at a place, the most complete first; a place may have those of several sets.

    One whose set no name gives counts if it is alone, else it is odd.
    """
    marked = {path: _marked(path) for path in tree.files}
    folders = {folder for folder in marked.values() if folder is not None}
    files: dict[str, list[str]] = defaultdict(list)
    for path, folder in marked.items():
        above = path if folder is None else folder
        while above not in folders and above:
            above = above.rpartition("/")[0]
        files[above].append(path)
    found = [_release(tree, folder, of_folder) for folder, of_folder in files.items() if folder in folders]
    mine = [one for one in found if one.set == of and one.source in ("", source)]
    unnamed = [one for one in found if not one.set]
    odd = [Odd(file=one.folder or one.table or IMAGES, why=UNNAMED) for one in unnamed if mine]
    mine = mine or unnamed
    if found and not mine:
        names = sorted({f"{one.set}{f' of {one.source}' if one.source else ''}" for one in found})
        raise InputError(
            f"{tree.place} has {', '.join(names)}; {of} of {source} is not among them: give the folder or "
            f"archive of {of}"
        )
    order = ("extended", "", *PARTS)
    return sorted(mine, key=lambda one: (order.index(one.version), one.stylized, one.folder)), odd


def unusable(release: Release) -> Iterator[Odd]:
    """The table of a release, if it does not say what pictures show."""
    columns = set(release.rows[0]) if release.rows else set()
    if release.table and not (
        "CATEGORY" in columns and columns & {"FILE_NAME", "FILE_PATH", "STYLIZED_PATH"}
    ):
        named = ", ".join(sorted(columns)) or "no row"
        yield Odd(
            file=release.files[release.table],
            why=f"it should have the columns FILE_NAME and CATEGORY, or {INFO} say how they are named "
            f"(it has {shown(named)})",
        )


def listed(release: Release, rows: Iterable[Mapping[str, str]], used: dict[str, str]) -> Iterator[Read]:
    """The untouched pictures that rows of the table name; `used` gets the label of each file."""
    for row in rows:
        label = mended(row.get("CATEGORY", ""))
        name = row.get("FILE_NAME") or name_of(row.get("FILE_PATH", ""))
        if not name:
            continue
        places = f"{IMAGES}/{name}", f"{CONTENT}/{label}/{name}", f"{IMAGES}/{label}/{name}", name
        path = release.find(places)
        if fault := fault_of(release, path, name, label, used):
            yield fault
        elif path and path not in used:
            used[path] = label
            yield Picture(path=path, label=label, name=stem_of(path))


def fault_of(
    release: Release, path: str | None, name: str, label: str, used: Mapping[str, str], why: str = ABSENT
) -> Odd | None:
    """Why a row of the table names no picture that can be used, if it does not."""
    if path is None:
        return Odd(file="/".join(filter(None, (release.folder, name))), why=why)
    file = release.files[path]
    if not label or label.upper() == "NAN":
        return Odd(file=file, why=f"{TABLE} gives it no category")
    if not path.lower().endswith(ENDINGS):
        return Odd(file=file, why="its name does not end as that of a picture")
    if plain(used.get(path, label)) != plain(label):
        return Odd(file=file, why=f"{TABLE} lists it in two categories (the first counts)")
    return None


def name_of(path: str) -> str:
    """The last part of a path; `PurePosixPath` is too slow for half a million."""
    return path.rpartition("/")[2]


def stem_of(path: str) -> str:
    """The last part of a path, without its ending."""
    return os.path.splitext(name_of(path))[0]


@lru_cache(NAMES)
def mended(text: str) -> str:
    """A name without what a wrong encoding has made of it.

    >>> mended("PunaisÃ© "), mended("Punaisé"), mended("polar_bear")
    ('Punaisé', 'Punaisé', 'polar_bear')
    """
    for encoding in ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode("utf-8").strip()
        except UnicodeError:
            continue
    return text.strip()


@lru_cache(NAMES)
def plain(text: str) -> str:
    """A name as far as folders and tables spell it the same.

    >>> plain("Polar bear"), plain("polar_bear")
    ('polar_bear', 'polar_bear')
    """
    return re.sub(r"[\W_]+", "_", unicodedata.normalize("NFKC", mended(text)).casefold()).strip("_")


def _release(tree: Tree, folder: str, files: Sequence[str]) -> Release:
    """A release; the last name of a folder above it that says something says what it is, or info.json."""
    start = len(folder) + 1 if folder else 0
    release = Release(tree=tree, folder=folder, files={path[start:]: path for path in files})
    place = without_packing(tree.place.name)
    version = ""
    for name in reversed((place, str(release.info.get("dataset_name", "")), *PurePosixPath(folder).parts)):
        if name in _openml():
            return replace(release, **_openml()[name])
        match = NAMED.fullmatch(re.sub(r"[^A-Z0-9]+", "_", name.upper()))
        if match:
            version = version or VERSION.get(match["version"] or match["set"], "")
            another = match["version"] and re.match("[A-Z0-9]+_", name)  # another set of Meta-Album
            if match["set"] in SETS or match["sty"] or another:
                return replace(release, set=match["set"], stylized=bool(match["sty"]), version=version)
    return replace(release, version=version)


@cache
def _openml() -> Mapping[str, Mapping[str, Any]]:
    """What the ids on OpenML say of a release."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, one in sources().items():
        family, _, of = re.sub("^meta_album", "meta", name).partition("_")
        for what, number in one.openml.items():
            found[str(number)] = {
                "set": of.upper(),
                "source": "SMA" if family == "sma" else "Meta-Album",
                "stylized": what.startswith(STYLIZED),
                "version": what.rpartition("_")[2],
            }
    return found


def _marked(path: str) -> str | None:
    """The folder of the release that a file says there is, by its name or that of a folder around it."""
    parts = path.split("/")
    for depth, folders in ((3, (CONTENT, STYLIZED, STYLES, IMAGES)), (2, (IMAGES,))):
        if len(parts) >= depth and parts[-depth].lower() in folders:
            return "/".join(parts[:-depth])
    if parts[-1].lower() == INFO or parts[-1].lower().endswith(TABLE):
        inside = len(parts) > 1 and parts[-2].lower() in (CONTENT, STYLIZED, IMAGES)
        return "/".join(parts[: -2 if inside else -1])
    return None


def _without_ending(path: str) -> str:
    return os.path.splitext(path)[0].lower()


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
