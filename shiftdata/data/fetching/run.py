"""From a name to a dataset in a folder: find places, preview, fetch, and put everything into its place."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

from shiftdata.data.fetching.files import bytes_here, fetch_files
from shiftdata.data.fetching.part import INDEX, PartFetch, purpose_of
from shiftdata.data.fetching.selection import Select, Selection, parsed, selection_of
from shiftdata.data.fetching.sources import NoPlaceError, Sources
from shiftdata.data.fetching.staging import (
    MANIFEST,
    State,
    check_space,
    free_space,
    install,
    is_right,
    staging,
    staging_of,
    state_of,
)
from shiftdata.data.format.conditions import condition_text
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.records import Condition, FileRecord
from shiftdata.data.places import catalog
from shiftdata.data.places.search import NAMESPACE, find, is_offline, store_at
from shiftdata.data.places.store import OnBytes, is_url
from shiftdata.errors import InputError, NotFoundError, StorageError
from shiftdata.files import absolute, refuse_links, write_bytes

MOST_LISTED = 10
#: Comparisons in the name of a folder.
SIGNS = {"!=": "-not-", "<=": "-to-", ">=": "-from-", "<": "-below-", ">": "-above-"}


class Options(TypedDict, total=False):
    """Options of `fetch`."""

    #: Only this base or canonical split.
    config: str | None
    #: Only rows with these values, such as `{"style": ["amber", "embers"]}` or `["severity<=1.5"]`.
    select: Select | None
    #: Only `train`, `validation` or `test`, or some of them; of a canonical split, some of its sets.
    split: str | Sequence[str] | None
    #: The folder to make; default: `shift/<name>`, for a part `shift/<name>-<selection>`.
    out: str | Path | None
    #: Folders and URLs to ask before those that are known.
    places: Sequence[str | Path]
    #: Do not touch the network; folders are still asked.
    offline: bool
    #: Replace another dataset or version that is in `out`.
    replace: bool
    #: Files that are fetched at a time.
    jobs: int
    #: Called with how many more bytes came; a negative number takes some back.
    on_bytes: OnBytes


def fetch(name: str | Path, **options: Unpack[Options]) -> Path:
    """Fetch a dataset, or a part of it, into a folder, from the first place that has each file right.

    Every file is compared with the manifest's hash, and every example of a part with its own. Called again,
    it goes on where it was interrupted, and repairs what is damaged.

    Args:
        name: a name of a catalog or on the Hub, a folder, or a URL.
        options: those of `Options`.

    """
    return Fetch(name=str(name), **options).run().target


@dataclass(frozen=True)
class Preview:
    """The work that a fetch is about to do.

    `files` counts whole files (rows of a part are in none); `here` are the bytes that are here already.
    """

    title: str
    files: int
    bytes: int
    here: int
    free: int
    places: tuple[str, ...]


@dataclass(kw_only=True)
class Fetch:
    """One fetch, with the options of `fetch`; `sources` counts what each place gave."""

    name: str
    config: str | None = None
    select: Select | None = None
    split: str | Sequence[str] | None = None
    out: str | Path | None = None
    places: Sequence[str | Path] = ()
    offline: bool = False
    replace: bool = False
    jobs: int = 4
    on_preview: Callable[[Preview], bool] = lambda preview: True
    on_bytes: OnBytes = lambda count: None
    notes: list[str] = field(default_factory=list)
    sources: Sources = field(init=False)
    manifest: Manifest = field(init=False)
    _written: bytes = field(init=False)
    _addresses: tuple[str, ...] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def target(self) -> Path:
        """The folder to make: named like the dataset, for a part also by its selection."""
        return Path(self.out or Path(NAMESPACE) / self._folder_name())

    def run(self) -> Fetch:
        """Fetch what is asked for; `on_preview` is called before anything large comes, and may say no."""
        if self.jobs < 1:
            raise InputError(f"jobs must be at least 1, got {self.jobs}")
        offline = self.offline or is_offline()
        entry, self.notes = (None, []) if is_url(self.name) else catalog.look_up(self.name, offline=offline)
        named = entry.places if entry else _by_name(self.name, bool(self.places))
        self._addresses = tuple(
            address  # the target cannot mend itself
            for address in dict.fromkeys([*map(str, self.places), *named])
            if is_url(address) or absolute(address) != self.target.absolute()
        )
        stores = [store_at(address) for address in self._addresses]
        self.sources = Sources(stores, entry.manifest if entry else None, offline)
        self._written = self._read_manifest()
        self.manifest = Manifest.from_json(self._written.decode(), short_name(self.name))
        selection = None
        if self.config or self.select or self.split:
            selection = selection_of(self.manifest, self.config, self.select, self.split)
        if selection is None or selection.is_whole(self.manifest):
            self._whole()
        else:
            self._part(selection)
        return self

    def _read_manifest(self) -> bytes:
        """Read the manifest from a place; where none answers, the one that an earlier fetch left here."""
        wanted, work = self.sources.wanted, staging_of(self.target)
        try:
            return self.sources.manifest()
        except NoPlaceError as error:
            reasons = error.reasons or ["no place: none is known but the folder to write to"]
        earlier = (self.target / FILE_NAME, work / MANIFEST, work / INDEX / FILE_NAME)
        for path in earlier if self.sources.offline or wanted else ():
            if path.is_file():
                written = path.read_bytes()
                digest = hashlib.sha256(written).hexdigest()
                if wanted in (None, digest):
                    self.sources.wanted = digest
                    return written
        name, offline = short_name(self.name), self.sources.offline
        raise catalog.unknown_dataset(name, reasons, self.notes, offline=offline)

    def _folder_name(self) -> str:
        splits = [self.split] if isinstance(self.split, str) else list(self.split or ())
        plain = short_name(self.name)
        for word in filter(None, [self.config, *map(_selected, parsed(self.select or ())), *splits]):
            plain += "-" + re.sub(r"[^\w.]+", "-", word).strip("-")
        digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
        return plain if len(plain) <= 80 else f"{plain[:70]}-{digest}"

    def _count_bytes(self, count: int) -> None:
        with self._lock:  # files come in several threads
            self.on_bytes(count)

    def _whole(self) -> None:
        state = state_of(self.target, self._written, self.manifest, replace=self.replace)
        work = staging_of(self.target)
        files = self.manifest.files
        todo = {path: file for path, file in files.items() if not is_right(self.target / path, file)}
        size = _size(todo) - sum(bytes_here(work, path, file) for path, file in todo.items())
        if state == "same" and not todo and (self.target / FILE_NAME).is_file():
            self._nothing_to_do(files)
            return
        check_space(self.target, size)
        if not self._agreed(self.manifest.title, len(todo), size, _size(files) - size):
            return
        with staging(self.target, purpose_of(self._written, None, self.manifest)) as folder:
            write_bytes(folder / MANIFEST, self._written)
            missing = fetch_files(self.sources, folder, todo, jobs=self.jobs, on_bytes=self._count_bytes)
            self._refuse(missing, len(todo))
            install(folder, self.target, state, files)

    def _part(self, selection: Selection) -> None:
        digest = hashlib.sha256(self._written).hexdigest()
        state = self._state_of_part(selection.record(digest, self.manifest))
        if state == "same":
            self._nothing_to_do(Manifest.read(self.target).files)
            return
        with staging(self.target, purpose_of(self._written, selection, self.manifest)) as folder:
            job = PartFetch(self.sources, self._written, self.manifest, selection, folder, self.jobs)
            files = job.metadata_files()
            check_space(self.target, _size(files))
            self._refuse(job.choose(files, self._count_bytes), len(files))
            size, needed = job.sizes()
            check_space(self.target, needed)
            rows = sum(map(len, job.chosen.values()))
            if not self._agreed(f"{self.manifest.title}: {rows:,} rows of {job.description()}", 0, size, 0):
                job.forget()
                return
            self._refuse(job.fetch(self._count_bytes), len(job.chosen))
            install(folder, self.target, state, {})

    def _nothing_to_do(self, files: Mapping[str, FileRecord]) -> None:
        self._agreed(self.manifest.title, 0, 0, _size(files))
        self.notes.append("everything is here already")

    def _state_of_part(self, wanted: object) -> State:
        """Look at the target of a part; the same part is made again only where it is damaged."""
        refuse_links(self.target, [FILE_NAME])
        if (self.target / FILE_NAME).is_file():
            here = Manifest.read(self.target)
            if here.part == wanted:
                whole = all(is_right(self.target / path, file) for path, file in here.files.items())
                return "same" if whole else "other"
        state = state_of(self.target, b"", self.manifest, replace=self.replace)
        return "other" if state == "same" else state

    def _agreed(self, title: str, files: int, size: int, here: int) -> bool:
        return self.on_preview(Preview(title, files, size, here, free_space(self.target), self._addresses))

    def _refuse(self, missing: Mapping[str, int], of: int) -> None:
        if not missing:
            return
        listed = [f"  {path}  {size / 1e6:,.2f} MB" for path, size in list(missing.items())[:MOST_LISTED]]
        if len(missing) > MOST_LISTED:
            listed.append(f"  and {len(missing) - MOST_LISTED:,} more")
        offline = self.sources.offline
        failed = "are not here, and this is offline" if offline else "could not be fetched"
        again = "run the same command again" + (" with the network" if offline else "")
        files = f"{len(missing):,} of {of:,} files ({sum(missing.values()) / 1e6:,.2f} MB)"
        first = f"{self.manifest.name} {self.manifest.version}: {files} {failed}:"
        reasons = [f"  {reason}" for reason in self.sources.reasons()]
        last = f"What came is kept: {again} to go on"
        raise StorageError("\n".join([first, *listed, "the places:", *reasons, last]))


def _by_name(given: str, more: bool) -> list[str]:
    try:
        store = find(given)
    except NotFoundError:
        if not more:
            raise
        return []
    named = not is_url(given) and not Path(given).is_absolute() and not given.startswith(".")
    repo_id = given if "/" in given else f"{NAMESPACE}/{given}"
    on_hub = [f"hf://datasets/{repo_id}"] if named and given.count("/") <= 1 else []
    return list(dict.fromkeys([store.address, *on_hub]))


def short_name(given: str) -> str:
    """Return the name of a dataset's folder.

    >>> [short_name(name) for name in ("shift/toy", "hf://datasets/lab/toy@v2", "/data/toy/")]
    ['toy', 'toy', 'toy']
    """
    text = given.rstrip("/").removesuffix("/manifest.json")
    if not is_url(text) and (text.startswith((".", "/", "~")) or text.count("/") > 1):
        text = str(absolute(text))  # such as `.`
    return text.rpartition("/")[2].partition("@")[0]


def _selected(condition: Condition) -> str:
    """Word a condition for the name of a folder."""
    text = condition_text(condition).removeprefix(f"{condition[0]}=")
    return re.sub("|".join(SIGNS), lambda sign: SIGNS[sign[0]], text)


def _size(files: Mapping[str, FileRecord]) -> int:
    return sum(record.bytes for record in files.values())
