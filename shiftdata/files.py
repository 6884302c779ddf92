"""Files and folders that appear whole or not at all, and hashes of files."""

from __future__ import annotations

import errno
import glob
import hashlib
import io
import os
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from shiftdata.errors import InputError, LockedError, StorageError

WORK_DIGITS = 16
OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Flags for every `os.open`, and those that follow no link or open only a folder, where the system has them.
PLAIN = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
NO_LINK, FOLDER = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_DIRECTORY", 0)
_seeking = threading.Lock()


def absolute(path: str | Path) -> Path:
    """Return the path from the root, with `~` expanded if that user exists, where `pathlib` raises."""
    return Path(os.path.expanduser(path)).absolute()


def cache_folder(name: str) -> Path:
    """`shiftdata/<name>` in $HF_HOME, $XDG_CACHE_HOME or `~/.cache`: for what can be computed again."""
    root = os.environ.get("HF_HOME") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return absolute(root) / "shiftdata" / name


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def git_blob_id(source: Path | bytes) -> str:
    """Return the id that git gives a file, or its content, in hexadecimal digits."""
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as stream:
        start = b"blob %d\0" % stream.seek(0, io.SEEK_END)
        stream.seek(0)
        return hashlib.file_digest(stream, lambda: hashlib.sha1(start, usedforsecurity=False)).hexdigest()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; on success it becomes `path`, whole and synced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not named by process: those of two machines, which share the folder, may have the same number.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with clear_when_full(path):
            open_new(temporary).close()  # not through a link of that name
            yield temporary
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
            temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def locked(path: Path, message: str, *, wait: float = 0.0) -> Iterator[None]:
    """Hold a lock file, or raise `LockedError` after `wait` seconds (-1: wait without a limit).

    A lock ends with its process.
    """
    from filelock import FileLock, Timeout  # it takes a while to import

    lock = FileLock(path, timeout=wait, mode=0o600, thread_local=False)
    try:
        lock.acquire(poll_interval=0.2 if wait < 0 else 0.005)
    except Timeout:
        raise LockedError(message) from None
    except (NotImplementedError, OSError) as error:
        raise StorageError(
            f"{path} cannot be locked ({error}): its file system needs locks (flock): mount it with them, or "
            "choose another folder that you may write to"
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def clear_when_full(path: Path) -> Iterator[None]:
    """Turn the errors of a full disk into a `StorageError`."""
    try:
        yield
    except OSError as error:
        # Arrow keeps the number of the system's error in the text alone.
        if not any(error.errno == number or f"[errno {number}]" in str(error) for number in OUT_OF_SPACE):
            raise
        raise StorageError(
            f"no space left for {path}: free some and run the same command again, it goes on where it stopped"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole and with the line endings it has."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file, whole."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read; a pipe or a device, which may never end, is refused without waiting."""
    return os.fdopen(descriptor_of(path), "rb")


def descriptor_of(path: Path) -> int:
    """Open a file as `open_regular` does; return its descriptor, which the caller closes."""
    descriptor = os.open(path, os.O_RDONLY | PLAIN)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise StorageError(f"{path} is not a regular file: put the file itself there")


def read_at(descriptor: int, size: int, start: int) -> bytes:
    """Read at most `size` bytes of an open file from `start` on, from several threads."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, start)
    with _seeking:  # Windows has only one position for all
        os.lseek(descriptor, start, os.SEEK_SET)
        return os.read(descriptor, size)


def open_new(path: Path, *, keep: bool = False) -> BinaryIO:
    """Open a file without other names to write, following no link; `keep` appends to it."""
    flags = os.O_WRONLY | os.O_CREAT | PLAIN | NO_LINK
    if keep and not path.is_symlink():
        with suppress(OSError):
            descriptor = os.open(path, flags | os.O_APPEND, 0o666)
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                file = os.fdopen(descriptor, "ab")
                file.seek(0, os.SEEK_END)
                return file
            os.close(descriptor)
    remove(path)
    return os.fdopen(os.open(path, flags | os.O_EXCL, 0o666), "wb")


def remove(path: Path) -> None:
    """Remove a file, a folder with its contents, or a link itself, if it exists."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()


def own_folder(path: Path, *, links: bool = False) -> Path:
    """Make a work folder; an existing one must be this user's, and neither be nor contain a link.

    Writing below it by path then stays in it. With `links`, it may contain links to files.
    """
    path.mkdir(parents=True, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
        raise InputError(f"{path} is a link or belongs to somebody else: move it away, and run this again")
    for folder, below, files in os.walk(path):
        for name in below if links else [*below, *files]:
            if not _is_plain(Path(folder) / name):
                raise InputError(
                    f"{Path(folder) / name} is a link or not a regular file, which was not made here: move "
                    f"{path} away, and run this again"
                )
    return path


def _is_plain(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def link_or_copy(file: Path, target: Path) -> None:
    """Give a file another place, without another copy of its bytes where the file system has links."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def refuse_links(root: Path, paths: Iterable[str]) -> None:
    """Refuse a folder in which one of these paths leads to a link, or to no regular file."""
    places = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 2)}
    for place in sorted(places):
        with suppress(FileNotFoundError, NotADirectoryError):
            if not _is_plain(root / place):
                raise InputError(
                    f"{root / place} is a link or not a regular file, so nothing is written there: remove "
                    "it, or give another folder"
                )


def move_below(file: Path, root: Path, path: str) -> None:
    """Move a file to a path below a folder, following no link on the way, not even a new one."""
    *parents, name = path.split("/")
    if os.mkdir not in os.supports_dir_fd:  # Windows, where making a link is a privilege
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        refuse_links(root, [path])
        file.replace(root / path)
        return
    with _folder_below(root, parents, make=True) as folder:
        os.replace(file, name, dst_dir_fd=folder)


def open_below(root: Path, parts: Sequence[str], flags: int = 0) -> int:
    """Open what lies below a folder, name by name, following no link and waiting for no pipe."""
    *parents, name = parts
    with _folder_below(root, parents) as folder:
        return os.open(name, os.O_RDONLY | NO_LINK | PLAIN | flags, dir_fd=folder)


@contextmanager
def _folder_below(root: Path, parents: Iterable[str], *, make: bool = False) -> Iterator[int]:
    """Yield a descriptor of a folder that no link leads to; one that can be searched need not be readable."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | FOLDER | PLAIN  # macOS has none
    folder = os.open(root, flags)
    try:
        for parent in parents:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(parent, dir_fd=folder)
            below = os.open(parent, flags | NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def swap(new: Path, place: Path, old: Path) -> None:
    """Put a finished folder into its place; the previous one is renamed to `old`, and removed.

    A reader sees one or the other, or nothing for a moment between two renames.
    """
    remove(old)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(old)
    new.rename(place)
    with suppress(OSError):
        remove(old)


def make_folder(
    out: Path, identity: str, last: str, write: Callable[[Path], None], check: Callable[[], object]
) -> None:
    """Make a folder next to its place and move it there: whole or not at all, and resumable.

    `identity` is a hash of what it will contain. `write` fills a work folder, where an interrupted call may
    have left files; one that has the file `last` is whole. `check` raises if `out` may not be replaced.
    """
    check()
    out = real(out)
    work = own_folder(out.parent / ".exporting", links=True) / f"{out.name}-{identity[:WORK_DIGITS]}"
    if not (work / last).is_file():
        write(work)
    check()
    swap(work, out, work.with_name(f"{work.name}-replaced"))
    for leftover in work.parent.glob(f"{glob.escape(out.name)}-{'[0-9a-f]' * WORK_DIGITS}*"):
        remove(leftover)  # interrupted exports of other content
    with suppress(OSError):  # something else is being exported
        work.parent.rmdir()


def real(folder: Path) -> Path:
    """Return a folder by its own name: it may be given as a link, such as one to another disk."""
    return folder.resolve() if folder.is_symlink() else folder
