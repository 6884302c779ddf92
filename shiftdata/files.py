"""Files and folders that appear whole or not at all, and hashes of files."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shiftdata.errors import StorageError

WORK_DIGITS = 16
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def git_blob_id(path: Path) -> str:
    """The id that git gives a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        start = b"blob %d\0" % path.stat().st_size
        return hashlib.file_digest(stream, lambda: hashlib.sha1(start, usedforsecurity=False)).hexdigest()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; on success it becomes `path`, whole and synced, else it goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with clear_when_full(path):
            yield temporary
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
            temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def locked(path: Path, message: str) -> Iterator[None]:
    """Have a lock file alone, or raise `StorageError` with a message; a lock ends with its process."""
    from filelock import FileLock, Timeout  # it takes a while to import

    lock = FileLock(path, timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise StorageError(message) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def clear_when_full(path: Path) -> Iterator[None]:
    """Say it plainly when the disk is full."""
    try:
        yield
    except OSError as error:
        # Arrow keeps the number of the system's error in the text alone.
        full = error.errno in OUT_OF_SPACE or any(
            f"[errno {number}]" in str(error) for number in OUT_OF_SPACE
        )
        if not full:
            raise
        raise StorageError(
            f"no space left for {path}: free some and run the same command again, it goes on where it stopped"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole and with the line endings it has."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def swap(new: Path, place: Path, old: Path) -> None:
    """Put a finished folder into its place; what was there goes by way of `old`.

    A reader sees one or the other, or for a moment between two renames nothing.
    """
    shutil.rmtree(old, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def make_folder(
    out: Path, identity: str, last: str, write: Callable[[Path], None], check: Callable[[], object]
) -> None:
    """Make a folder beside its place and move it there: whole or not at all, and resumable.

    `identity` is a hash of what it will contain. `write` fills a work folder, where an interrupted call may
    have left files; one that has the file `last` is whole. `check` raises if `out` may not be replaced.
    """
    check()
    work = out.parent / ".exporting" / f"{out.name}-{identity[:WORK_DIGITS]}"
    if not (work / last).is_file():
        write(work)
    check()
    swap(work, out, work.with_name(f"{work.name}-replaced"))
    for left in work.parent.glob(f"{glob.escape(out.name)}-{'[0-9a-f]' * WORK_DIGITS}*"):
        shutil.rmtree(left)  # interrupted exports of other content
    with suppress(OSError):  # something else is being exported
        work.parent.rmdir()
