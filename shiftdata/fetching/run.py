"""From a name to a dataset in a folder: find places, preview, fetch, and put everything into its place."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from shiftdata.errors import InputError, StorageError
from shiftdata.fetching.files import bytes_here, fetch_files, fetch_renderings
from shiftdata.fetching.part import INDEX, PartFetch, purpose_of
from shiftdata.fetching.request import Outcome, Preview, Request
from shiftdata.fetching.resolve import Candidates, resolve, unknown
from shiftdata.fetching.selection import Select, Selection, selection_of
from shiftdata.fetching.sources import NoPlaceError, Sources
from shiftdata.fetching.staging import (
    MANIFEST,
    State,
    check_paths,
    check_space,
    free_space,
    install,
    is_right,
    staging,
    staging_of,
    state_of,
)
from shiftdata.format.manifest import FILE_NAME, FileRecord, Manifest
from shiftdata.format.paths import CROISSANT, README
from shiftdata.places.search import is_offline, store_at
from shiftdata.places.store import OnBytes
from shiftdata.verifying.manifest import refuse

MOST_LISTED = 10


def fetch(
    name: str | Path,
    *,
    config: str | None = None,
    select: Select | None = None,
    split: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    places: Sequence[str | Path] = (),
    offline: bool = False,
    replace: bool = False,
    jobs: int = 4,
    on_bytes: OnBytes = lambda count: None,
) -> Path:
    """Fetch a dataset, or a part of it, into a folder, from the first place that has each file right.

    Every file is compared with the manifest's hash, and every example of a part with its own. Called again,
    it goes on where it was interrupted, and repairs what is damaged.

    Args:
        name: a name of a catalog or on the Hub, a folder, or a URL.
        config: only this base or canonical split.
        select: only rows with these values, such as `{"style": ["leaves", "rust"]}` or `["severity<=1.5"]`.
        split: only `train`, `validation` or `test`, or some of them.
        out: the folder to make; default: `shift/<name>`, for a part `shift/<name>-<what>`.
        places: folders and URLs to ask before those that are known.
        offline: do not touch the network; folders are still asked.
        replace: replace another dataset or version that is in `out`.
        jobs: how many files are fetched at a time.
        on_bytes: called with how many more bytes came; a negative number takes some back.

    """
    request = Request(
        name=str(name),
        config=config,
        select=select,
        split=split,
        out=Path(out) if out is not None else None,
        places=[str(place) for place in places],
        offline=offline,
        replace=replace,
        jobs=jobs,
    )
    return run(request, on_bytes=on_bytes).folder


def run(
    request: Request,
    *,
    on_preview: Callable[[Preview], bool] = lambda preview: True,
    on_bytes: OnBytes = lambda count: None,
) -> Outcome:
    """Fetch what is asked for; `on_preview` is called before anything large comes, and may say no."""
    if request.jobs < 1:
        raise InputError(f"jobs must be at least 1, got {request.jobs}")
    offline = request.offline or is_offline()
    candidates = resolve(request.name, request.places, request.target, offline=offline)
    sources = Sources([store_at(one) for one in candidates.addresses], candidates.manifest, offline)
    written = _manifest_of(sources, candidates, request.target)
    manifest = Manifest.from_json(written.decode(), candidates.name)
    check_paths(manifest)
    refuse(manifest)
    lock = threading.Lock()

    def one_at_a_time(count: int) -> None:
        with lock:  # files come in several threads
            on_bytes(count)

    outcome = Outcome(request.target, sources, list(candidates.notes))
    job = _Job(request, candidates, manifest, written, outcome, on_preview, one_at_a_time)
    selection = None
    if request.of_part:
        selection = selection_of(manifest, request.config, request.select, request.split)
    if selection is None or selection.is_whole(manifest):
        job.whole()
    else:
        job.part(selection)
    return outcome


@dataclass
class _Job:
    """One fetch under way."""

    request: Request
    candidates: Candidates
    manifest: Manifest
    written: bytes
    outcome: Outcome
    on_preview: Callable[[Preview], bool]
    on_bytes: OnBytes

    @property
    def out(self) -> Path:
        return self.outcome.folder

    def whole(self) -> None:
        """Fetch every file that is not there yet."""
        state = state_of(self.out, self.written, self.manifest, replace=self.request.replace)
        work = staging_of(self.out)
        files = self.manifest.files
        todo = {path: one for path, one in files.items() if not is_right(self.out / path, one)}
        size = _size(todo) - sum(bytes_here(work, path, one) for path, one in todo.items())
        names = [README] if self.manifest.is_webdataset else [README, CROISSANT]
        names = [name for name in names if state != "same" or not (self.out / name).is_file()]
        if state == "same" and not todo and not names and (self.out / FILE_NAME).is_file():
            self._nothing_to_do(files)
            return
        check_space(self.out, size)
        if not self._agreed(self.manifest.title, len(todo), size, _size(files) - size):
            return
        with self._staged(None) as folder:
            (folder / MANIFEST).write_bytes(self.written)
            sources, jobs = self.outcome.sources, self.request.jobs
            missing = fetch_files(sources, folder, todo, jobs=jobs, on_bytes=self.on_bytes)
            self._refuse(missing, len(todo))
            for name in fetch_renderings(sources, folder, names):
                lost = "plain `datasets` will not know its configs" if name == README else "it is not needed"
                self.outcome.notes.append(f"no place gave {name}: {lost}")
            install(folder, self.out, state, files)

    def part(self, selection: Selection) -> None:
        """Fetch the rows of a selection."""
        digest = hashlib.sha256(self.written).hexdigest()
        state = self._state_of_part(selection.record(digest, self.manifest))
        if state == "same":
            self._nothing_to_do(Manifest.read(self.out).files)
            return
        with self._staged(selection) as folder:
            job = PartFetch(
                self.outcome.sources, self.written, self.manifest, selection, folder, self.request.jobs
            )
            files = job.metadata_files()
            check_space(self.out, _size(files))
            self._refuse(job.choose(files, self.on_bytes), len(selection.splits))
            size, needed = job.sizes()
            check_space(self.out, needed)
            rows = sum(map(len, job.chosen.values()))
            if not self._agreed(f"{self.manifest.title}: {rows:,} rows of {job.description()}", 0, size, 0):
                job.forget()
                return
            self._refuse(job.fetch(self.on_bytes), len(job.chosen))
            install(folder, self.out, state, {})

    def _nothing_to_do(self, files: Mapping[str, FileRecord]) -> None:
        self.outcome.notes.append("everything is here already")
        self._agreed(self.manifest.title, 0, 0, _size(files))

    def _state_of_part(self, wanted: object) -> State:
        """What is at the target of a part; the same part is made again only where it is damaged."""
        if (self.out / FILE_NAME).is_file():
            here = Manifest.read(self.out)
            if here.part == wanted:
                whole = all(is_right(self.out / path, one) for path, one in here.files.items())
                return "same" if whole and (self.out / README).is_file() else "other"
        state = state_of(self.out, b"", self.manifest, replace=self.request.replace)
        return "other" if state == "same" else state

    def _agreed(self, title: str, files: int, size: int, here: int) -> bool:
        preview = Preview(
            title=title,
            out=self.out,
            places=self.candidates.addresses,
            files=files,
            bytes=size,
            here=here,
            free=free_space(self.out),
            notes=self.candidates.notes,
        )
        return self.on_preview(preview)

    def _staged(self, selection: Selection | None) -> AbstractContextManager[Path]:
        return staging(self.out, purpose_of(self.written, selection, self.manifest))

    def _refuse(self, missing: Mapping[str, int], of: int) -> None:
        """Say exactly what could not be fetched, and how to get it."""
        if not missing:
            return
        listed = [f"  {path}  {size / 1e6:,.2f} MB" for path, size in list(missing.items())[:MOST_LISTED]]
        if len(missing) > MOST_LISTED:
            listed.append(f"  and {len(missing) - MOST_LISTED:,} more")
        failed, hint = "could not be fetched", "to go on, run"
        if self.outcome.sources.offline:
            failed, hint = "are not here, and this is offline", "with the network, run"
        lines = [
            f"{self.manifest.name} {self.manifest.version}: {len(missing):,} of {of:,} files "
            f"({sum(missing.values()) / 1e6:,.2f} MB) {failed}:",
            *listed,
            "the places:",
            *(f"  {reason}" for reason in self.outcome.sources.reasons()),
            f"What came is kept; {hint}: {self.request.command}",
        ]
        raise StorageError("\n".join(lines))


def _manifest_of(sources: Sources, candidates: Candidates, out: Path) -> bytes:
    """The manifest from a place; where none answers, what an earlier fetch left here, if that is known."""
    try:
        return sources.manifest()
    except NoPlaceError as error:
        reasons = error.reasons
    kept = (out / FILE_NAME, staging_of(out) / MANIFEST, staging_of(out) / INDEX / FILE_NAME)
    for path in kept if sources.offline or candidates.manifest else ():
        if path.is_file():
            written = path.read_bytes()
            digest = hashlib.sha256(written).hexdigest()
            if candidates.manifest in (None, digest):
                sources.wanted = digest
                return written
    raise unknown(candidates, reasons, sources.offline)


def _size(files: Mapping[str, FileRecord]) -> int:
    return sum(record.bytes for record in files.values())
