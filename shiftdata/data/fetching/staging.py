"""The folder in which a fetch gathers files until all are there, and the move to their place."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.records import FileRecord
from shiftdata.data.places.signatures import SIGNATURE
from shiftdata.errors import InputError, StorageError
from shiftdata.files import (
    clear_when_full,
    link_or_copy,
    locked,
    move_below,
    open_regular,
    own_folder,
    real,
    refuse_links,
    remove,
    sha256_of,
    swap,
    write_text,
)

#: The manifest while files are still missing: a folder with a `manifest.json` is whole.
MANIFEST = ".manifest.json"
#: What a staging folder is for: files of one fetch must not get into another.
PURPOSE = ".purpose"
LOCK = ".lock"

#: What is at a target: nothing, files of the same dataset, or another one to be replaced.
State: TypeAlias = Literal["new", "same", "other"]


def staging_of(out: Path) -> Path:
    """Name the hidden folder next to a target: on the same disk, so that a move is one step."""
    place = real(out).absolute()
    return place.parent / f".{place.name}.fetching"


@contextmanager
def staging(out: Path, purpose: str) -> Iterator[Path]:
    """Make the staging folder for one fetch at a time; what one with another `purpose` left is deleted."""
    folder = staging_of(out)
    with clear_when_full(folder):
        own_folder(folder)
        names = {path.name for path in folder.iterdir()}
        if names and not names & {LOCK, PURPOSE}:
            raise InputError(f"{folder} was not made by a fetch: move it away, or give another --out")
        message = f"another fetch is writing to {folder}: wait for it, or give another --out"
        with locked(folder / LOCK, message):
            written = folder / PURPOSE
            if not written.is_file() or written.read_text(encoding="utf-8") != purpose:
                for left in folder.iterdir():
                    if left.name != LOCK:
                        remove(left)
                write_text(written, purpose)
            yield folder


def state_of(out: Path, written: bytes, manifest: Manifest, *, replace: bool) -> State:
    """Look at the target; refuse what is neither this dataset nor may be replaced, and links in it."""
    listed = {*manifest.files, FILE_NAME, SIGNATURE}
    refuse_links(out, listed)
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return "new"
    here = out / FILE_NAME
    if here.is_file():
        with open_regular(here) as file:
            same = file.read(len(written) + 1) == written
        if same:
            return "same"
        if replace:
            return "other"
        raise InputError(
            f"{out} has another dataset, another version or another part than {manifest.name} "
            f"{manifest.version}: give another --out, or replace it with --replace"
        )
    inside = [path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()]
    if out.is_dir() and all(path in listed or path.startswith(".") for path in inside):
        return "same"
    raise InputError(f"{out} is there and is not a shiftdata dataset: give another --out, or move it away")


def is_right(file: Path, record: FileRecord) -> bool:
    """Return True if a file is the one of the manifest; a link is not."""
    try:
        status = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (
        stat.S_ISREG(status.st_mode) and status.st_size == record.bytes and sha256_of(file) == record.sha256
    )


PART_ADVICE = "free some, give another --out, or fetch a part (--config, --select, --split)"


def check_space(out: Path, need: int, advice: str = PART_ADVICE) -> None:
    """Refuse to begin what cannot end."""
    place = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if need > free:
        raise StorageError(
            f"{out} needs {need / 1e6:,.1f} MB more, and {free / 1e6:,.1f} MB are free there: {advice}"
        )


def install(work: Path, out: Path, state: State, files: Mapping[str, FileRecord]) -> None:
    """Bring what was gathered into its place, the manifest last; `work` is gone then."""
    (work / MANIFEST).replace(work / FILE_NAME)
    for left in [*work.rglob(".*"), *work.rglob("*.part")]:  # everything that is not of the dataset
        if left.name != PURPOSE:  # which goes last: without it, all would be fetched again
            remove(left)
    if state == "same":
        _move_into(work, out)
        return
    for path, record in files.items() if state == "other" else ():  # what the new version has unchanged
        if not (work / path).exists() and is_right(out / path, record):
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(out / path, work / path)
    swap(work, real(out), work.with_name(f"{work.name}-replaced"))
    (out / PURPOSE).unlink()


def _move_into(work: Path, out: Path) -> None:
    gathered = sorted(path for path in work.rglob("*") if path.is_file() and path.name != PURPOSE)
    for file in [*(path for path in gathered if path != work / FILE_NAME), work / FILE_NAME]:
        move_below(file, out, file.relative_to(work).as_posix())
    shutil.rmtree(work)
