"""Uploaded files by their sha256: received, put durably into their place, and read only if they are whole."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from shiftdata.files import open_regular
from shiftdata.serve.names import Refusal, damaged, is_sha256

#: The process or the machine has no more of something for a moment: this says nothing of a file.
TOO_MANY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

#: Bytes of the disk that uploads and commits must leave free; deleting and changing settings may use them.
RESERVE = 64 << 20

#: Seconds for which a blob that no commit names is kept: its upload may still end in a commit.
KEPT = 24 * 3600

#: Blobs up to this size are hashed before their first reader gets a byte; an upload that a client could leave
#: out is, up to the other. Larger ones are left to the check in the background.
HASHED_FOR_READERS = 16 << 20
HASHED_FOR_WRITERS = 1 << 30

#: Seconds for which a request that asks for many blobs hashes them; the rest is believed.
HASHING_SECONDS = 10.0
MOST_REMEMBERED = 50_000
PIECE = 1 << 20


class Incoming:
    """A file that is being received: `move` gives it its place, `drop` removes what was not moved."""

    def __init__(self, folder: Path, check_room: Callable[[int], None] | None) -> None:
        """`check_room` is asked before each piece of a file that must leave bytes of the disk free."""
        descriptor, name = tempfile.mkstemp(dir=folder, prefix="upload-")
        self.path, self.size = Path(name), 0
        self.file, self._hash = os.fdopen(descriptor, "wb"), hashlib.sha256()
        self._check_room, self._asked = check_room, 0

    def drop(self) -> None:
        with suppress(OSError):  # a full disk is reported where it is met
            self.file.close()
        self.path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        if self._check_room and self.size + len(data) > self._asked:
            self._check_room(max(len(data), PIECE))
            self._asked = self.size + max(len(data), PIECE)
        self.file.write(data)
        self._hash.update(data)
        self.size += len(data)

    def settle(self) -> None:
        """Make sure that its bytes are on the disk."""
        if not self.file.closed:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()

    def move(self, place: Path) -> None:
        """Put it durably into its place: what is there is the old file, or this one."""
        self.settle()
        make_folder(place.parent)
        self.path.replace(place)
        sync_folder(place.parent)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class Identity(NamedTuple):
    """What changes whenever a file does."""

    device: int
    inode: int
    size: int
    changed: int
    touched: int

    @classmethod
    def of(cls, now: os.stat_result) -> Identity:
        return cls(now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


class Blobs:
    """Uploaded files, each once; `tmp` is for what is on its way, `aside` for what was found to be wrong."""

    def __init__(self, folder: Path, *, writable: bool) -> None:
        self.folder, self.tmp, self.aside = (folder / name for name in ("blobs", "tmp", "damaged"))
        self._writable = writable
        self._lock = threading.Lock()
        self._whole: dict[str, Identity] = {}
        self._wrong: dict[str, Identity] = {}

    def prepare(self) -> None:
        """Make the folders, and clear what was on its way when a server was killed."""
        shutil.rmtree(self.tmp, ignore_errors=True)
        for folder in (self.folder, self.tmp):
            make_folder(folder)

    def path(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256

    def __iter__(self) -> Iterator[str]:
        for folder in sorted(names_in(self.folder)):
            yield from (name for name in sorted(names_in(self.folder / folder)) if is_sha256(name))

    def receive(self) -> Incoming:
        return Incoming(self.tmp, self.check_room)

    def write(self, path: Path, content: bytes) -> None:
        """Write a small file, whole or not at all; it may use the bytes that are to stay free."""
        incoming = Incoming(self.tmp, None)
        try:
            incoming.write(content)
            incoming.move(path)
        finally:
            incoming.drop()

    def keep(self, incoming: Incoming) -> str:
        """Put a received file among the blobs, durably; return its hash. One that is there may be wrong."""
        sha256 = incoming.sha256
        incoming.path.chmod(0o444)
        incoming.settle()
        with self._lock:
            incoming.move(self.path(sha256))
            self._remember(self._whole, sha256, Identity.of(self.path(sha256).stat()))
        return sha256

    def has(self, sha256: str, size: int | None = None, *, most: int = HASHED_FOR_WRITERS) -> int | None:
        """The size of a blob that is whole, and is then kept for a day; None if it must be sent (again).

        One that is larger than `most`, and was not hashed since the server started, is believed.
        """
        try:
            descriptor = self._open(sha256)
        except Refusal:
            return None
        try:
            now = os.fstat(descriptor)
            if size not in (None, now.st_size):
                return None
            if not self._is_whole(sha256, descriptor, most):
                return None
            with self._lock:
                identity = Identity.of(now)
                if not self._writable or Identity.of(self.path(sha256).stat()) != identity:
                    return now.st_size
                with suppress(PermissionError):  # another user's file is only read
                    os.utime(descriptor)
                if self._whole.get(sha256) == identity:
                    self._whole[sha256] = Identity.of(os.fstat(descriptor))
            return now.st_size
        except FileNotFoundError:  # set aside, or removed
            return None
        finally:
            os.close(descriptor)

    def open(self, sha256: str, size: int) -> int:
        """A descriptor of a blob of this size; a small one, or one that was checked, is whole."""
        descriptor = self._open(sha256)
        try:
            if os.fstat(descriptor).st_size != size or not self._is_whole(
                sha256, descriptor, HASHED_FOR_READERS
            ):
                raise damaged(f"blob {sha256}", "its bytes are not those that were uploaded: send it again")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def check(self, sha256: str, rest: Callable[[float], None]) -> bool:
        """Hash a blob, whether or not that was done before; `rest` is called with the seconds used."""
        self._whole.pop(sha256, None)
        try:
            descriptor = self._open(sha256)
        except Refusal:
            return False
        try:
            return self._is_whole(sha256, descriptor, os.fstat(descriptor).st_size, rest)
        finally:
            os.close(descriptor)

    def remove_unnamed(self, sha256: str) -> int | None:
        """Remove a blob that no commit names and nobody asked for within a day; return its size."""
        with self._lock:
            now = self.path(sha256).stat()
            if time.time() - now.st_mtime < KEPT:
                return None
            self.path(sha256).unlink()
            return now.st_size

    def set_aside(self, path: Path) -> None:
        """Move a file away that is not what its name says."""
        make_folder(self.aside)
        path.replace(self.aside / f"{path.name}-{time.time_ns()}")

    def check_room(self, size: int) -> None:
        """Refuse what would use the bytes that are to stay free."""
        free = shutil.disk_usage(self.tmp).free - RESERVE
        if size > free:
            raise Refusal(507, f"the mirror's disk has room for {max(free, 0):,} bytes, not for {size:,}")

    def hasher(self) -> Callable[[str, int], bool]:
        """Say of many blobs whether each is here and whole, in bounded time."""
        until = time.monotonic() + HASHING_SECONDS

        def is_here(sha256: str, size: int) -> bool:
            most = HASHED_FOR_WRITERS if time.monotonic() < until else 0
            return self.has(sha256, size, most=most) is not None

        return is_here

    def _open(self, sha256: str) -> int:
        try:
            descriptor = os.open(self.path(sha256), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno in TOO_MANY:
                raise
            raise damaged(f"blob {sha256}", "it is missing or cannot be read: send it again") from None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise damaged(f"blob {sha256}", "it is not a file: send it again")

    def _is_whole(
        self, sha256: str, descriptor: int, most: int, rest: Callable[[float], None] = lambda seconds: None
    ) -> bool:
        """Whether it has its hash; one that is larger than `most`, and was not hashed yet, is believed."""
        identity = Identity.of(os.fstat(descriptor))
        if self._whole.get(sha256) == identity:
            return True
        if self._wrong.get(sha256) == identity:
            return False
        if identity.size > most:
            return True
        well = hash_of(descriptor, rest) == sha256
        with self._lock:
            if Identity.of(os.fstat(descriptor)) == identity:
                self._remember(self._whole if well else self._wrong, sha256, identity)
            with suppress(FileNotFoundError):
                if not well and self._writable and Identity.of(self.path(sha256).stat()) == identity:
                    self.set_aside(self.path(sha256))
        return well

    def _remember(self, where: dict[str, Identity], sha256: str, identity: Identity) -> None:
        if len(where) >= MOST_REMEMBERED:
            where.clear()
        where[sha256] = identity


def hash_of(descriptor: int, rest: Callable[[float], None] = lambda seconds: None) -> str:
    """The sha256 of an open file; `rest` is called with the seconds that each piece took."""
    digest, at = hashlib.sha256(), 0
    while True:
        began = time.monotonic()
        piece = os.pread(descriptor, PIECE, at)
        if not piece:
            return digest.hexdigest()
        digest.update(piece)
        at += len(piece)
        rest(time.monotonic() - began)


def names_in(folder: Path) -> list[str]:
    """The names in a folder; none if it does not exist, may not be read, or is not one."""
    try:
        return os.listdir(folder)
    except OSError as error:
        if error.errno in TOO_MANY:
            raise
        return []


def read_small(path: Path, most: int) -> bytes:
    """A regular file of at most so many bytes, without waiting for anything."""
    with open_regular(path) as stream:
        if len(content := stream.read(most + 1)) > most:
            raise ValueError(f"it is larger than {most:,} bytes")
        return content


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, so that their names are on the disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
