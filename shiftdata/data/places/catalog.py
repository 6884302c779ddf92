"""A catalog: the name of a dataset -> the places that hold it, and the hash of its manifest.

It is one small JSON file. With the hash every byte of a dataset can be checked, whichever place gives it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftdata.data.format.names import is_path_part, line_fault
from shiftdata.data.format.typed import record
from shiftdata.data.places.freshness import Statement, check_catalog, read_address
from shiftdata.data.places.hubs import config_folder
from shiftdata.data.places.search import NAMESPACE, local_datasets, search_path
from shiftdata.data.places.signatures import Keys, pinned
from shiftdata.data.places.store import SHA256, MissingFileError, is_url
from shiftdata.errors import InputError, NotFoundError, ShiftdataError, StorageError, not_found
from shiftdata.files import write_text
from shiftdata.logs import logger
from shiftdata.untrusted.texts import read_json

FILE_NAME = "catalog.json"
#: Paths and URLs of catalogs, with commas between them: a colon is a part of every URL.
VARIABLE = "SHIFTDATA_CATALOG"

#: Protocols that any catalog may name, and those that only one on this machine may, with folders.
NETWORK = ("https", "http", "hf", "hf+https", "hf+http", "s3", "s3a", "gs", "gcs")
NEARBY = ("file", "local", "memory")
MOST_BYTES = 4 << 20
LONGEST = 2000
LOG = logger(__name__)


@dataclass(frozen=True)
class Entry:
    """One dataset: the sha256 of its `manifest.json`, and the places that hold it, the first tried first."""

    manifest: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class Catalog:
    """Datasets by name, and what its publisher signed with it, where that was checked."""

    entries: Mapping[str, Entry]
    statement: Statement | None = None

    @classmethod
    def read(cls, address: str | Path, keys: Keys = ()) -> Catalog:
        """Read a catalog from its path or URL; with `keys`, one of them must have signed it (`freshness`)."""
        where = str(address)
        try:
            data = read_address(where, MOST_BYTES)
            statement = check_catalog(where, data, keys) if keys else None
            return replace(cls.from_json(data.decode(), where), statement=statement)
        except MissingFileError as error:
            raise NotFoundError(f"{where} does not exist: check ${VARIABLE}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{where} is not a catalog: it is not UTF-8 ({error})") from error

    @classmethod
    def from_json(cls, text: str, where: str = FILE_NAME) -> Catalog:
        """Read the text of a catalog; `where` names it in errors."""
        try:
            raw = read_json(text)
        except ValueError as error:
            raise InputError(f"{where} is not JSON: {error}") from error
        if not isinstance(raw, dict):
            raise InputError(f'{where} is not a catalog: {{"<name>": {{"manifest": .., "places": ..}}}}')
        return cls({name: _entry(f"{where}: the entry {name!r}", name, raw[name]) for name in raw})

    def to_json(self) -> str:
        """Write the text of the file: equal catalogs give equal bytes."""
        entries = {
            name: {"manifest": entry.manifest, "places": list(entry.places)}
            for name, entry in sorted(self.entries.items())
        }
        return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"

    def write(self, path: Path) -> None:
        """Write the whole file; it is checked as one that is read."""
        write_text(path, self.from_json(self.to_json(), str(path)).to_json())


def addresses() -> list[str]:
    """List the catalogs: those of $SHIFTDATA_CATALOG, then the user's own, if it is there.

    The user's own is `shiftdata/catalog.json` in $XDG_CONFIG_HOME, or else in `~/.config`.
    """
    given = [part.strip() for part in os.environ.get(VARIABLE, "").split(",")]
    own = config_folder() / FILE_NAME
    return [*(part for part in given if part), *([str(own)] if own.is_file() else [])]


def look_up(name: str, *, offline: bool = False, keys: Keys = ()) -> tuple[Entry | None, list[str]]:
    """Return the entry of a name in the first catalog that has one, and why catalogs could not be read.

    One that cannot be read must not hide a dataset that another one has. Offline, URLs are not read. Places
    that a catalog may not name are left out. `shift/<name>` is also looked up as `<name>`. With `keys`, a
    catalog that none of them signed is an error, and so is one that is away when no other has the name: an
    older dataset must not be taken from the Hub instead.
    """
    notes: list[str] = []
    away: list[str] = []
    short = name.removeprefix(f"{NAMESPACE}/")
    for address in addresses():
        if offline and is_url(address):
            notes.append(f"{address}: not asked (offline)")
            continue
        try:
            entries = _read(address, keys).entries
        except ShiftdataError as error:
            unreadable = isinstance(error, InputError) and not isinstance(error, NotFoundError)
            if (unreadable and not is_url(address)) or (keys and not isinstance(error, StorageError)):
                raise  # the user's own file, or an attack
            away.append(str(error))
            notes.append(str(error))
            LOG.info("a catalog is left out: %s", error)
            continue
        entry = entries.get(name) or entries.get(short)
        if entry is not None:
            LOG.debug("%s is in the catalog %s: manifest %s", name, address, entry.manifest[:12])
            faults = {place: place_fault(place, far=is_url(address)) for place in entry.places}
            notes += [f"{address}: {place[:100]!a} {fault}" for place, fault in faults.items() if fault]
            return replace(entry, places=tuple(place for place in entry.places if not faults[place])), notes
    if keys and away:
        raise StorageError(
            "\n".join([f"no catalog that could be read has {name!r}, and these could not:", *away])
        )
    return None, notes


def _read(address: str, keys: Keys) -> Catalog:
    """Read a catalog by the pinned keys; the user's own, which lies next to their file, needs none."""
    return Catalog.read(address, () if address == str(config_folder() / FILE_NAME) else keys)


def catalogued(*, offline: bool = False) -> dict[str, str]:
    """Map each name in a readable catalog to the first catalog that has it."""
    names: dict[str, str] = {}
    keys = pinned()
    for address in addresses():
        if not (offline and is_url(address)):
            with suppress(ShiftdataError):
                names = dict.fromkeys(_read(address, keys).entries, address) | names
    return names


def unknown_dataset(
    name: str, reasons: Sequence[str], notes: Sequence[str] = (), *, offline: bool = False
) -> NotFoundError:
    """Make the error for a dataset that no place has.

    `reasons` has a line for each place that was asked, `notes` say what went wrong with catalogs.
    """
    names = {path.name for path in local_datasets()} | set(catalogued(offline=offline))
    folders = [f"{root}: {'not this one' if root.is_dir() else 'no such folder'}" for root in search_path()]
    catalogs = [f"catalog {note}" for note in [*addresses(), *notes]]
    catalogs = catalogs or [f"catalogs: none (${VARIABLE} is not set)"]
    advice = [
        "check the name; or give the folder or URL of the dataset itself",
        "SHIFTDATA_HOME=<the folder above the dataset's folder> adds a folder to those that are searched",
        f"{VARIABLE}=<file or URL of your lab's catalog.json> adds the datasets of a catalog",
        "to build one: `shiftdata recipes`",
    ]
    if offline:
        advice.insert(0, f"this is offline; with the network: shiftdata fetch {name}")
    lines = ["Looked in:", *folders, *catalogs, *reasons]
    details = "\n  ".join(lines) + "\nWhat to do:\n  " + "\n  ".join(advice)
    if name in names:
        return NotFoundError(f"the dataset {name!r} is known, and none of its places gave it. {details}")
    return not_found("dataset", name, names, details)


def place_fault(place: str, *, far: bool) -> str | None:
    """Say why a place of a catalog is not asked, or None. A catalog that is `far` may not name files here.

    >>> place_fault("hf+https://lab/datasets/shift/toy", far=True), place_fault("/data/toy", far=False)
    (None, None)
    >>> place_fault("/data/toy", far=True)
    'is not used: a catalog at a URL names only https, http, hf, hf+https, hf+http, s3, s3a, gs, gcs'
    """
    if line_fault(place) or len(place) > LONGEST:
        return "is not used: it is not the address of a place"
    protocol = place.partition(":")[0].lower() if is_url(place) else "file"
    allowed = NETWORK if far else (*NETWORK, *NEARBY)
    if "::" in place or protocol not in allowed:
        where = "a catalog at a URL" if far else "a catalog"
        return f"is not used: {where} names only {', '.join(allowed)}"
    return "is not used: it has a login in it" if "@" in place.partition("://")[2].partition("/")[0] else None


def _entry(where: str, name: str, raw: Any) -> Entry:
    if name.count("/") > 1 or not all(map(is_path_part, name.split("/"))):
        raise InputError(f"{where}: a name is <name> or <owner>/<name> of letters, digits, '.', '_' and '-'")
    try:
        entry = record(Entry, raw)
    except ValueError as error:
        raise InputError(f"{where}: {error}; it needs exactly manifest and places") from error
    if not SHA256.fullmatch(entry.manifest):
        raise InputError(f"{where}: manifest is {entry.manifest!r}; give its sha256, 64 digits of 0-9a-f")
    if not entry.places or not all(entry.places):
        raise InputError(f"{where}: places is {raw['places']!r}; give a list of at least one folder or URL")
    return entry
