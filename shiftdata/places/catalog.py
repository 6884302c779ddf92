"""A catalog: the name of a dataset -> the places that hold it, and the hash of its manifest.

It is one small JSON file. With the hash every byte of a dataset can be checked, whichever place gives it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from shiftdata.errors import InputError, NotFoundError, ShiftdataError, StorageError
from shiftdata.files import write_text
from shiftdata.format.typed import read_json
from shiftdata.places.search import store_at
from shiftdata.places.store import MissingFileError, is_url

FILE_NAME = "catalog.json"
#: Paths and URLs of catalogs, with commas between them: a colon is a part of every URL.
VARIABLE = "SHIFTDATA_CATALOG"

NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """One dataset: the sha256 of its `manifest.json`, and the places that hold it, the first tried first."""

    manifest: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class Catalog:
    """Datasets by name; `where` is what it was read from."""

    entries: Mapping[str, Entry]
    where: str = FILE_NAME

    @classmethod
    def read(cls, address: str | Path) -> Catalog:
        where = str(address)
        place, name = os.path.split(where) if is_url(where) else os.path.split(Path(where).expanduser())
        try:
            return cls.from_json(store_at(place).read(name).decode(), where)
        except MissingFileError as error:
            raise NotFoundError(f"{where} does not exist: check ${VARIABLE}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{where} is not a catalog: it is not UTF-8 ({error})") from error

    @classmethod
    def from_json(cls, text: str, where: str = FILE_NAME) -> Catalog:
        """Read the text of a catalog; `where` names it in errors."""
        try:
            raw = read_json(text, partial(_unique, where))
        except ShiftdataError:
            raise
        except ValueError as error:
            raise InputError(f"{where} is not JSON: {error}") from error
        if not isinstance(raw, dict):
            raise InputError(f'{where} is not a catalog: {{"<name>": {{"manifest": .., "places": ..}}}}')
        return cls({name: _entry(f"{where}: the entry {name!r}", name, raw[name]) for name in raw}, where)

    def to_json(self) -> str:
        """The text of the file: equal catalogs give equal bytes."""
        entries = {
            name: {"manifest": entry.manifest, "places": list(entry.places)}
            for name, entry in sorted(self.entries.items())
        }
        return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the whole file; it is checked as one that is read."""
        write_text(path, self.from_json(self.to_json(), str(path)).to_json())


def addresses() -> list[str]:
    """Where catalogs are looked for: those of $SHIFTDATA_CATALOG, then the user's own, if it is there.

    The user's own is `shiftdata/catalog.json` in $XDG_CONFIG_HOME, or else in `~/.config`.
    """
    given = [part.strip() for part in os.environ.get(VARIABLE, "").split(",")]
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    own = config / "shiftdata" / FILE_NAME
    return [*(part for part in given if part), *([str(own)] if own.is_file() else [])]


def look_up(name: str, *, offline: bool = False) -> tuple[Entry | None, list[str]]:
    """The entry of a name in the first catalog that has one, and why catalogs could not be read.

    One that cannot be read must not hide a dataset that another one has. Offline, URLs are not read.
    """
    notes = []
    for address in addresses():
        if offline and is_url(address):
            notes.append(f"{address}: not asked (offline)")
            continue
        try:
            entries = Catalog.read(address).entries
        except (StorageError, NotFoundError) as error:
            notes.append(str(error))
            continue
        if name in entries:
            return entries[name], notes
    return None, notes


def _entry(where: str, name: str, raw: Any) -> Entry:
    if not NAME.fullmatch(name):
        raise InputError(f"{where}: a name is <name> or <owner>/<name> of letters, digits, '.', '_' and '-'")
    if not isinstance(raw, dict) or set(raw) != {"manifest", "places"}:
        raise InputError(f"{where} is {raw!r:.80}; it needs exactly manifest and places")
    manifest, places = raw["manifest"], raw["places"]
    if not isinstance(manifest, str) or not SHA256.fullmatch(manifest):
        raise InputError(f"{where}: manifest is {manifest!r}; give its sha256, 64 digits of 0-9a-f")
    if not isinstance(places, list) or not places or not all(isinstance(one, str) and one for one in places):
        raise InputError(f"{where}: places is {places!r}; give a list of at least one folder or URL")
    return Entry(manifest, tuple(places))


def _unique(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a name that comes twice would hide an entry."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise InputError(f"{where} has {name!r} twice: keep one")
    return dict(pairs)
