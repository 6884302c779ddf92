"""Releases of Meta-Album and SMA at a place: `<ID>_<Version>/{images/,labels.csv,info.json}` and the like."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from builders.albums.folder import ENDINGS
from builders.raw.archives import without_packing
from builders.raw.records import decoded, json_in
from builders.raw.sources import sources
from builders.raw.tree import Tree
from shiftdata.errors import InputError
from shiftdata.untrusted.limits import most
from shiftdata.untrusted.pages import UnreadableError
from shiftdata.untrusted.parquet import read_parquet
from shiftdata.untrusted.texts import read_csv, read_toml

FORMS = read_toml(Path(__file__).with_name("sma.toml"))
#: The name of a set of SMA with a version, or of Meta-Album; a folder of any other name says nothing.
NAMED = re.compile(
    r"((STYLIZED_)?META_ALBUM_|SMA_)?(?P<set>[A-Z0-9_]+?)(?P<sty>_STY(LIZED)?)?(_(?P<version>MINI|MICRO|EXT(ENDED)?))?"
)
#: Versions that are parts of Extended.
PARTS = ("mini", "micro")
TABLES = (".csv", ".tsv", ".parquet", ".pq")
IMAGES, CONTENT, STYLIZED, STYLES = "images", "content", "stylized", "styles"
SPLITS = ("train", "valid", "val", "test")
FOLDERS = (IMAGES, CONTENT, STYLIZED, STYLES, *SPLITS)
#: The path of a file, or of one at most two folders below another, by which the folder above is a release.
MARKED = re.compile(
    rf"((?P<release>.+?)/)??(({'|'.join(FOLDERS)})/([^/]+/){{0,2}}[^/]+|[^/]*(labels\.csv|info\.json))", re.I
)


@dataclass(frozen=True, kw_only=True)
class Release:
    """A folder that was published as one: a version of a set, untouched or stylized.

    `set` and `source` are empty where no name says them; `base` is the version. The `table` is in the folder,
    or above it as next to an archive of the pictures. `files` are paths in the tree by those in the folder.
    """

    tree: Tree
    folder: str
    table: str
    files: Mapping[str, str]
    set: str = ""
    base: str = "extended"
    source: str = ""
    stylized: bool = False

    @cached_property
    def info(self) -> Mapping[str, Any]:
        """The content of info.json, if there is one."""
        info = json_in(self.tree, self.files["info.json"]) if "info.json" in self.files else {}
        return info if isinstance(info, dict) else {}

    @cached_property
    def rows(self) -> Sequence[Mapping[str, str]]:
        """The rows of the table, by the names of columns in capitals."""
        if not self.table:
            return ()
        data = self.tree.read(self.table)
        try:
            if self.table.lower().endswith((".pq", ".parquet")):
                rows = read_parquet(data, name=self.table, most_rows=most("csv_records")).to_pylist()
            else:
                text = decoded(data)
                delimiter = max(",;\t", key=text.partition("\n")[0].count)
                rows = read_csv(text, self.table, delimiter)
        except (csv.Error, UnreadableError) as error:
            where = f"{self.table} in {self.tree.place}"
            raise InputError(f"{where} is damaged ({error}): get it again") from error
        renamed = {str(self.info.get(key)).upper(): name for key, name in FORMS["columns"]["renamed"].items()}
        names = {key: str(key).strip().upper().replace(" ", "_") for key in (rows[0] if rows else ())}
        texts = [
            {key: "" if cell is None else str(cell).strip() for key, cell in row.items()} for row in rows
        ]
        return [{renamed.get(name, name): row[key] for key, name in names.items()} for row in texts]


def releases(tree: Tree, of: str, source: str) -> list[Release]:
    """Find the releases of a set at a place, the most complete first; a place may have those of several sets.

    One whose set no name gives counts if no other has a name. Where nothing is laid out as a release, a
    folder with a table is one, or else the whole place. What is in styles/ is photographs of other things.
    """
    tables = [path for path in tree.files if path.lower().endswith(TABLES)]
    folders = {match["release"] or "" for match in map(MARKED.fullmatch, tree.files) if match}
    folders = folders or {"", *(path.rpartition("/")[0] for path in tables)}
    files: dict[str, dict[str, str]] = defaultdict(dict)
    for path in (path for path in tree.files if f"/{STYLES}/" not in f"/{path.lower()}"):
        above = path.rpartition("/")[0]
        while above and above not in folders:
            above = above.rpartition("/")[0]
        files[above][path[len(above) :].lstrip("/")] = path
    known = [
        _named(Release(tree=tree, folder=folder, table=_nearest(tables, folder), files=files[folder]))
        for folder in sorted(folders)
        if any(path.lower().endswith(ENDINGS) for path in files[folder])
    ]
    mine = [release for release in known if release.set == of and release.source in ("", source)]
    mine = mine or [release for release in known if not release.set]
    if known and not mine:
        names = sorted({" of ".join(filter(None, (release.set, release.source))) for release in known})
        raise InputError(
            f"{tree.place} has {', '.join(names)}; {of} of {source} is not among them: give the folder or "
            f"archive of {of}"
        )
    return sorted(mine, key=lambda release: (release.base in PARTS, release.base, release.stylized))


def _nearest(tables: Sequence[str], folder: str) -> str:
    """Return the table in a folder or in the nearest above it; of several labels.csv, or else text."""
    near = [path for path in tables if f"{folder}/".startswith(f"{path.rpartition('/')[0]}/".lstrip("/"))]
    ranks = {path: (path.count("/"), path.endswith("labels.csv"), path.endswith(".csv")) for path in near}
    return max(near, key=ranks.__getitem__, default="")


def _named(release: Release) -> Release:
    """Say what a release is; of the names of folders and in info.json the last that says something counts."""
    given = (release.info.get("dataset_name"), release.info.get("dataset_id"), *release.folder.split("/"))
    base = ""
    for name in reversed((without_packing(release.tree.place.name), *map(str, given))):
        if name in _openml():
            return replace(release, **_openml()[name])
        if match := NAMED.fullmatch(re.sub(r"[^A-Z0-9]+", "_", name.upper())):
            base = base or FORMS["versions"].get(match["version"] or match["set"], "")
            of = FORMS["aliases"].get(match["set"], match["set"])
            is_other = match["version"] and re.match("[A-Z0-9]+_", name)  # of Meta-Album
            if of in FORMS["sets"] or match["sty"] or is_other:
                return replace(release, set=of, stylized=bool(match["sty"]), base=base or release.base)
    return replace(release, base=base or release.base)


@cache
def _openml() -> Mapping[str, Mapping[str, Any]]:
    """Return which release each id on OpenML is."""
    return {
        str(number): {
            "set": name.removeprefix("sma_").removeprefix("meta_album_").upper(),
            "source": "SMA" if name.startswith("sma_") else "Meta-Album",
            "base": form.rpartition("_")[2],
            "stylized": form.startswith(STYLIZED),
        }
        for name, source in sources().items()
        for form, number in source.openml.items()
    }
