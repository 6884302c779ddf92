"""From a name to a dataset in a folder: find places, plan, fetch, and put everything into its place."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shiftdata.errors import InputError, IntegrityError, StorageError
from shiftdata.fetching.files import bring_all, bring_renderings, here
from shiftdata.fetching.part import INDEX, PartFetch, purpose_of
from shiftdata.fetching.request import Outcome, Plan, Request
from shiftdata.fetching.resolve import Found, resolve, unknown
from shiftdata.fetching.selection import Select, Selection, selection_of
from shiftdata.fetching.staging import (
    MANIFEST,
    State,
    check_paths,
    check_space,
    free_space,
    install,
    is_right,
    locked,
    staging_of,
    state_of,
)
from shiftdata.fetching.supply import NoPlaceError, Supply
from shiftdata.files import clear_when_full
from shiftdata.format.manifest import FILE_NAME, FileRecord, Manifest
from shiftdata.places.search import is_offline, store_at
from shiftdata.places.store import OnBytes
from shiftdata.verifying.manifest import refuse

README, CROISSANT = "README.md", "croissant.json"
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
    it goes on where it was cut, and mends what is damaged.

    Args:
        name: a name of a catalog or on the Hub, a folder, or a URL.
        config: only this base or canonical split.
        select: only rows with these values, such as `{"style": ["leaves", "rust"]}` or `["severity<=1.5"]`.
        split: only `train`, `validation` or `test`, or some of them.
        out: the folder to make; default: `shift/<name>`, for a part `shift/<name>-<what>`.
        places: folders and URLs to ask before those that are known.
        offline: do not touch the network; folders are still asked.
        replace: put it into the place of another dataset or version that is in `out`.
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
    outcome = carry_out(request, on_bytes=on_bytes)
    return outcome.folder


def carry_out(
    request: Request,
    *,
    on_plan: Callable[[Plan], bool] = lambda plan: True,
    on_bytes: OnBytes = lambda count: None,
) -> Outcome:
    """Fetch what is asked for; `on_plan` sees the plan before anything large comes, and may say no."""
    if request.jobs < 1:
        raise InputError(f"jobs must be at least 1, got {request.jobs}")
    offline = request.offline or is_offline()
    found = resolve(request.name, request.places, request.target, offline=offline)
    supply = Supply([store_at(one) for one in found.addresses], found.manifest, offline)
    written = _manifest_of(supply, found, request.target, offline)
    manifest = Manifest.from_json(_text(written, found), found.name)
    check_paths(manifest)
    refuse(manifest)
    selection = None
    if request.of_part:
        selection = selection_of(manifest, request.config, request.select, request.split)
        selection = None if selection.is_whole(manifest) else selection
    outcome = Outcome(request.target, supply, list(found.notes))
    lock = threading.Lock()

    def tell(count: int) -> None:
        with lock:  # files come in several threads
            on_bytes(count)

    job = _Job(request, found, manifest, written, outcome, on_plan, tell)
    if selection is None:
        job.whole()
    else:
        job.part(selection)
    return outcome


@dataclass
class _Job:
    """One fetch under way."""

    request: Request
    found: Found
    manifest: Manifest
    written: bytes
    outcome: Outcome
    on_plan: Callable[[Plan], bool]
    tell: OnBytes

    @property
    def out(self) -> Path:
        return self.outcome.folder

    def whole(self) -> None:
        """Fetch every file that is not there yet."""
        state = state_of(self.out, self.written, self.manifest, replace=self.request.replace)
        work = staging_of(self.out)
        files = self.manifest.files
        todo = {path: one for path, one in files.items() if not is_right(self.out / path, one)}
        size = _size(todo) - sum(here(work, path, one) for path, one in todo.items())
        names = [README, *([CROISSANT] if not self.manifest.is_webdataset else [])]
        names = [name for name in names if state != "same" or not (self.out / name).is_file()]
        if state == "same" and not todo and not names and (self.out / FILE_NAME).is_file():
            self.outcome.notes.append("everything is here already")
            self._agreed(self.manifest.title, 0, 0, _size(files))
            return
        check_space(self.out, size)
        if not self._agreed(self.manifest.title, len(todo), size, _size(files) - size):
            return
        with self._staged(None) as folder:
            (folder / MANIFEST).write_bytes(self.written)
            missing = bring_all(self.outcome.supply, folder, todo, jobs=self.request.jobs, tell=self.tell)
            self._refuse(missing, len(todo))
            self._renderings(folder, names)
            install(folder, self.out, state, files)

    def part(self, selection: Selection) -> None:
        """Fetch the rows of a selection."""
        digest = hashlib.sha256(self.written).hexdigest()
        state = self._state_of_part(selection.record(digest, self.manifest))
        if state == "same":
            self.outcome.notes.append("everything is here already")
            self._agreed(self.manifest.title, 0, 0, _size(Manifest.read(self.out).files))
            return
        with self._staged(selection) as folder:
            job = PartFetch(
                self.outcome.supply,
                self.written,
                self.manifest,
                selection,
                self.out,
                folder,
                self.request.jobs,
            )
            self._refuse(job.look(self.tell), len(selection.splits))
            size, need = job.sizes()
            check_space(self.out, need)
            rows = sum(map(len, job.chosen.values()))
            title = f"{self.manifest.title}: {rows:,} rows of {job.words()}"
            if not self._agreed(title, 0, size, 0):
                job.forget()
                return
            self._refuse(job.run(self.tell), len(job.chosen))
            install(folder, self.out, state, {})

    def _state_of_part(self, wanted: object) -> State:
        """What is at the target of a part; the same part is made again only where it is damaged."""
        if (self.out / FILE_NAME).is_file():
            found = Manifest.read(self.out)
            if found.part == wanted:
                whole = all(is_right(self.out / path, one) for path, one in found.files.items())
                return "same" if whole and (self.out / README).is_file() else "other"
        state = state_of(self.out, b"", self.manifest, replace=self.request.replace)
        return "other" if state == "same" else state

    def _agreed(self, title: str, files: int, size: int, here: int) -> bool:
        plan = Plan(
            title=title,
            out=self.out,
            places=self.found.addresses,
            files=files,
            bytes=size,
            here=here,
            free=free_space(self.out),
            notes=tuple(self.found.notes),
        )
        return self.on_plan(plan)

    @contextmanager
    def _staged(self, selection: Selection | None) -> Iterator[Path]:
        with (
            locked(self.out, purpose_of(self.written, selection, self.manifest)) as folder,
            clear_when_full(folder),
        ):
            yield folder

    def _renderings(self, folder: Path, names: list[str]) -> None:
        for name in bring_renderings(self.outcome.supply, folder, names):
            what = (
                "`load_dataset` of plain `datasets` will find no configs"
                if name == README
                else "it is not needed"
            )
            self.outcome.notes.append(f"no place gave {name}: {what}")

    def _refuse(self, missing: Mapping[str, int], of: int) -> None:
        """Say exactly what could not be fetched, and how to get it."""
        if not missing:
            return
        listed = [f"  {path}  {size / 1e6:,.2f} MB" for path, size in list(missing.items())[:MOST_LISTED]]
        if len(missing) > MOST_LISTED:
            listed.append(f"  and {len(missing) - MOST_LISTED:,} more")
        offline = self.outcome.supply.offline
        failed, hint = "could not be fetched", "to go on, run"
        if offline:
            failed, hint = "are not here, and this is offline", "with the network, run"
        lines = [
            f"{self.manifest.name} {self.manifest.version}: {len(missing):,} of {of:,} files "
            f"({sum(missing.values()) / 1e6:,.2f} MB) {failed}:",
            *listed,
            "the places:",
            *(f"  {reason}" for reason in self.outcome.supply.reasons()),
            f"What came is kept; {hint}: {self.request.command}",
        ]
        raise StorageError("\n".join(lines))


def _manifest_of(supply: Supply, found: Found, out: Path, offline: bool) -> bytes:
    """The manifest from a place; where none answers, what an earlier fetch left here, if that is known."""
    try:
        return supply.manifest()
    except NoPlaceError as error:
        kept = (out / FILE_NAME, staging_of(out) / MANIFEST, staging_of(out) / INDEX / FILE_NAME)
        for path in kept if offline or found.manifest else ():
            if path.is_file():
                written = path.read_bytes()
                digest = hashlib.sha256(written).hexdigest()
                if found.manifest in (None, digest):
                    supply.wanted = digest
                    return written
        reasons = error.reasons
    raise unknown(found, reasons, offline)


def _text(written: bytes, found: Found) -> str:
    try:
        return written.decode()
    except UnicodeDecodeError as error:
        raise IntegrityError(f"the manifest of {found.name} is not UTF-8 ({error})") from error


def _size(files: Mapping[str, FileRecord]) -> int:
    return sum(record.bytes for record in files.values())
