"""From a name to a dataset in a folder: find places, preview, fetch, and put everything into its place."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shiftdata.data.fetching.part import INDEX, PartFetch, purpose_of
from shiftdata.data.fetching.selection import Select, Selection, parsed, selection_of
from shiftdata.data.fetching.sources import NoPlaceError, Sources, bytes_here, fetch_files
from shiftdata.data.fetching.staging import (
    MANIFEST,
    State,
    check_space,
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
from shiftdata.data.places.signatures import SIGNATURE, pinned
from shiftdata.data.places.store import OnBytes, is_url
from shiftdata.errors import InputError, NotFoundError, StorageError
from shiftdata.files import absolute, refuse_links, write_bytes
from shiftdata.progress import shows

MOST_LISTED = 10
#: What may be a name on a Hub; anything else is a folder or a URL.
NAME = re.compile(r"(?!\.)[\w.@-]+(/[\w.@-]+)?", re.ASCII)
#: Comparisons in the name of a folder.
SIGNS = {"!=": "-not-", "<=": "-to-", ">=": "-from-", "<": "-below-", ">": "-above-"}


@dataclass(frozen=True)
class Plan:
    """A fetch that is about to begin: how many bytes come into the folder `target`.

    `notes` say what was wrong with catalogs. `sources` counts from now on what each place gives.
    """

    title: str
    bytes: int
    target: Path
    notes: Sequence[str]
    sources: Sources


@shows("fetch", on_bytes="B")
def fetch(
    name: str | Path,
    *,
    config: str | None = None,
    select: Select | None = None,
    split: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    places: Sequence[str | Path] = (),
    key: str | None = None,
    offline: bool = False,
    replace: bool = False,
    jobs: int = 4,
    on_plan: Callable[[Plan], object] = lambda plan: None,
    on_bytes: OnBytes = lambda count: None,
) -> Path:
    """Fetch a dataset, or a part of it, into a folder, from the first place that has each file right.

    Every file is compared with the manifest's hash, and every example of a part with its own. Called again,
    it goes on where it was interrupted, and repairs what is damaged.

    Args:
        name: a name of a catalog or on the Hub, a folder, or a URL.
        config: only this base or canonical split.
        select: only rows with these values, such as `{"style": ["amber", "embers"]}` or `["severity<=1.5"]`.
        split: only `train`, `validation` or `test`, or some of them; of a canonical split, some of its sets.
        out: the folder to make; default: `shift/<name>`, for a part `shift/<name>-<selection>`.
        places: folders and URLs to ask before those that are known.
        key: a public key, or a file of it, that must have signed the catalog or the manifest; default: the
            pinned keys, of $SHIFTDATA_KEY or `~/.config/shiftdata/keys.pub`, if there are any.
        offline: do not touch the network; folders are still asked.
        replace: replace another dataset or version that is in `out`.
        jobs: files that are fetched at a time.
        on_plan: called before the examples come.
        on_bytes: called with how many more bytes came, a negative number takes some back; default: a bar.

    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    name, offline, keys = str(name), offline or is_offline(), pinned(key)
    target = Path(out or Path(NAMESPACE) / _folder_name(name, config, select, split))
    entry, notes = (None, []) if is_url(name) else catalog.look_up(name, offline=offline, keys=keys)
    named = entry.places if entry else _by_name(name, bool(places))
    stores = [
        store_at(address)  # the target cannot mend itself
        for address in dict.fromkeys([*map(str, places), *named])
        if is_url(address) or absolute(address) != target.absolute()
    ]
    wanted = entry.manifest if entry else None
    sources = Sources(stores, wanted, offline, keys, short_name(name) if _is_name(name) else None)
    written = _read_manifest(name, target, sources, notes)
    manifest = Manifest.from_json(written.decode(), short_name(name))
    lock = threading.Lock()

    def count(more: int) -> None:
        with lock:  # files come in several threads
            on_bytes(more)

    def begin(title: str, size: int) -> None:
        on_plan(Plan(title, size, target, notes, sources))

    job = _Fetch(sources, written, manifest, target, replace, jobs, begin, count)
    asked = selection_of(manifest, config, select, split) if config or select or split else None
    if asked is None or asked.is_whole(manifest):
        job.whole()
    else:
        job.part(asked)
    if sources.signature and (asked is None or asked.is_whole(manifest)):
        write_bytes(target / SIGNATURE, sources.signature)
    return target


def _read_manifest(name: str, target: Path, sources: Sources, notes: Sequence[str]) -> bytes:
    """Read the manifest from a place; where none answers, the one that an earlier fetch left here."""
    wanted, work = sources.wanted, staging_of(target)
    try:
        return sources.manifest()
    except NoPlaceError as error:
        reasons = error.reasons or ["no place: none is known but the folder to write to"]
    earlier = (target / FILE_NAME, work / MANIFEST, work / INDEX / FILE_NAME)
    for path in earlier if wanted or (sources.offline and not sources.keys) else ():
        if path.is_file():
            written = path.read_bytes()
            digest = hashlib.sha256(written).hexdigest()
            if wanted in (None, digest):
                sources.wanted = digest
                return written
    raise catalog.unknown_dataset(short_name(name), reasons, notes, offline=sources.offline)


def _folder_name(
    name: str, config: str | None, select: Select | None, split: str | Sequence[str] | None
) -> str:
    splits = [split] if isinstance(split, str) else list(split or ())
    plain = short_name(name)
    for word in filter(None, [config, *map(_selected, parsed(select or ())), *splits]):
        plain += "-" + re.sub(r"[^\w.]+", "-", word).strip("-")
    digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
    return plain if len(plain) <= 80 else f"{plain[:70]}-{digest}"


@dataclass(frozen=True)
class _Fetch:
    """The work of one fetch, with what its name and options lead to."""

    sources: Sources
    written: bytes
    manifest: Manifest
    target: Path
    replace: bool
    jobs: int
    begin: Callable[[str, int], None]
    count: OnBytes

    def whole(self) -> None:
        """Fetch every file that is not right in the target."""
        state = state_of(self.target, self.written, self.manifest, replace=self.replace)
        work, files = staging_of(self.target), self.manifest.files
        todo = {path: file for path, file in files.items() if not is_right(self.target / path, file)}
        size = _size(todo) - sum(bytes_here(work, path, file) for path, file in todo.items())
        check_space(self.target, size)
        self.begin(self.manifest.title, size)
        if state == "same" and not todo and (self.target / FILE_NAME).is_file():
            return
        with staging(self.target, purpose_of(self.written, None, self.manifest)) as folder:
            write_bytes(folder / MANIFEST, self.written)
            missing = fetch_files(self.sources, folder, todo, jobs=self.jobs, on_bytes=self.count)
            self._refuse(missing, len(todo))
            install(folder, self.target, state, files)

    def part(self, selection: Selection) -> None:
        digest = hashlib.sha256(self.written).hexdigest()
        state = self._state_of_part(selection.record(digest, self.manifest))
        if state == "same":
            return self.begin(self.manifest.title, 0)
        with staging(self.target, purpose_of(self.written, selection, self.manifest)) as folder:
            job = PartFetch(self.sources, self.written, self.manifest, selection, folder, self.jobs)
            files = job.metadata_files()
            check_space(self.target, _size(files))
            self._refuse(job.choose(files, self.count), len(files))
            size, needed = job.sizes()
            check_space(self.target, needed)
            rows = sum(map(len, job.chosen.values()))
            self.begin(f"{self.manifest.title}: {rows:,} rows of {job.description()}", size)
            self._refuse(job.fetch(self.count), len(job.chosen))
            install(folder, self.target, state, {})
        return None

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
    repo_id = given if "/" in given else f"{NAMESPACE}/{given}"
    on_hub = [f"hf://datasets/{repo_id}"] if _is_name(given) else []
    return list(dict.fromkeys([store.address, *on_hub]))


def _is_name(given: str) -> bool:
    return NAME.fullmatch(given) is not None


def short_name(given: str) -> str:
    """Return the name of a dataset's folder.

    >>> [short_name(name) for name in ("shift/toy", "hf://datasets/lab/toy@v2", "/data/toy/")]
    ['toy', 'toy', 'toy']
    """
    text = given.rstrip("/").removesuffix("/manifest.json")
    if not is_url(text) and not _is_name(text):
        text = absolute(text).name  # such as `.`
    return text.rpartition("/")[2].partition("@")[0]


def _selected(condition: Condition) -> str:
    """Word a condition for the name of a folder."""
    text = condition_text(condition).removeprefix(f"{condition[0]}=")
    return re.sub("|".join(SIGNS), lambda sign: SIGNS[sign[0]], text)


def _size(files: Mapping[str, FileRecord]) -> int:
    return sum(record.bytes for record in files.values())
