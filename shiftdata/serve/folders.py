"""Folders as repos: read where they lie, never copied, never changed.

A folder with a manifest.json or a README.md is a repo; any other is an owner, whose sub-folders with one are
repos. A README.md above folders with a manifest is a note, not a card. Symbolic links, and names that start
with a dot, are left out: whatever is swapped meanwhile, nothing is opened through a link below the served
folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from shiftdata.data.format.manifest import FILE_NAME, SHA256, undamaged
from shiftdata.data.format.paths import README
from shiftdata.errors import NotFoundError, ShiftdataError
from shiftdata.files import git_blob_id, open_below
from shiftdata.serve.names import Refusal, is_plain, is_repo_part, no_entry, no_revision, report

#: The owner of folders without one, and the user name of everybody who has the token.
OWNER = "shift"


class Changed(Exception):
    """A file is no longer what its commit says: ask the repo for its commit again."""


class FileRecord(NamedTuple):
    """A file of a commit. For git, every file is in LFS: its blob is a pointer."""

    size: int
    sha256: str

    @property
    def pointer(self) -> bytes:
        version = "version https://git-lfs.github.com/spec/v1"
        return f"{version}\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @property
    def blob_id(self) -> str:
        return git_blob_id(self.pointer)


@dataclass(frozen=True, eq=False)
class Commit:
    """A revision of a repo; `files` are in the order of their paths."""

    id: str
    date: str
    files: Mapping[str, FileRecord]

    def __reduce__(self) -> tuple[Any, ...]:
        return Commit, (self.id, self.date, self.files)  # another thread may be computing the rest

    @cached_property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    @cached_property
    def folders(self) -> frozenset[str]:
        folders: set[str] = set()
        for path in self.files:
            while (path := path.rpartition("/")[0]) and path not in folders:
                folders.add(path)
        return frozenset(folders)

    @cached_property
    def paths(self) -> list[str]:
        """Files and folders, sorted: what a folder contains is one stretch."""
        return sorted([*self.files, *self.folders])


def hub_time(seconds: float) -> str:
    """A time as the Hub writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


#: The process or the machine has run out of something for a moment: this says nothing of a file.
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

#: Seconds for which a listing of a folder is used again; `Repo.open` compares each file with it.
LISTING_SECONDS = 1.0

#: Seconds for which a request waits for another one that lists the same folder.
LOCK_TIMEOUT = 1.0

#: Seconds after which a second change of a file surely has another time: clocks of file systems tick.
CLOCK_TICK = 0.02

#: Bytes of a manifest at most, for its hashes to count: while it is parsed, readers of files wait.
MAX_MANIFEST = 2 << 20

#: A folder below the served one: the names that lead to it.
Parts: TypeAlias = tuple[str, ...]


class Identity(NamedTuple):
    """The state of a file: another one, or one that was written to, differs in at least one field."""

    device: int
    inode: int
    size: int
    changed: int
    touched: int

    @classmethod
    def of(cls, now: os.stat_result) -> Identity:
        return cls(now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


@contextmanager
def scanned(root: Path, parts: Parts) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a folder that may be served; none where it may not be read, or no longer exists."""
    try:
        descriptor = open_below(root, (*parts, "."), os.O_DIRECTORY)
    except OSError as error:
        if error.errno in EXHAUSTED:
            raise
        if not isinstance(error, FileNotFoundError):
            report("/".join(parts) or str(root), f"this folder cannot be read ({error.strerror})")
        yield iter(())
        return
    try:
        with os.scandir(descriptor) as entries:
            yield (entry for entry in entries if not entry.name.startswith("."))
    finally:
        os.close(descriptor)


def find_folders(root: Path) -> dict[tuple[str, str], Parts]:
    """The repos in a folder, by owner and name; the folder itself, where it is one."""
    if _is_repo(root, ()):
        return {(OWNER, root.name): ()} if is_repo_part(root.name) else {}
    repos: dict[tuple[str, str], Parts] = {}
    for (child,) in _sub_folders(root, ()):
        if _is_repo(root, (child,)):
            repos[OWNER, child] = (child,)
        else:
            inner = _sub_folders(root, (child,))
            repos |= {(child, parts[-1]): parts for parts in inner if _is_repo(root, parts)}
    return repos


def _sub_folders(root: Path, parts: Parts) -> list[Parts]:
    folders = []
    with scanned(root, parts) as entries:
        for entry in entries:
            path = "/".join((*parts, entry.name))
            if not is_repo_part(entry.name):
                report(path, "it is not served: a client could not ask for this name")
            elif entry.is_symlink():
                report(path, "it is not served: it is a symbolic link")
            elif entry.is_dir(follow_symlinks=False):
                folders.append((*parts, entry.name))
    return sorted(folders)


def _is_repo(root: Path, parts: Parts) -> bool:
    names = _file_names(root, parts)
    if FILE_NAME in names or README not in names:
        return FILE_NAME in names
    return not any(FILE_NAME in _file_names(root, below) for below in _sub_folders(root, parts))


def _file_names(root: Path, parts: Parts) -> set[str]:
    with scanned(root, parts) as entries:
        return {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}


@dataclass(frozen=True)
class Listing:
    """The files of a folder, the hashes of their states, and the commit that they are."""

    files: Mapping[str, Identity]
    hashes: Mapping[Identity, str]
    commit: Commit


@dataclass(eq=False)
class Repo:
    """A folder as a repo with one branch, `main`, whose commit id changes whenever a file does.

    A file that is opened and is no longer the one that was listed makes it list again: no bytes go out under
    the hash of others.
    """

    owner: str
    name: str
    root: Path
    parts: Parts
    listing: Listing | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _listed_at: float = field(default=0.0, repr=False)

    def commit(self, revision: str) -> Commit:
        commit = self._current().commit
        if revision not in ("main", commit.id):
            raise no_revision(revision)
        return commit

    def open(self, commit: Commit, path: str) -> int:
        """Return a descriptor of a file that is still the one that was listed; else raise `Changed`."""
        listing = self.listing
        if path not in commit.files:
            raise no_entry(path)
        descriptor = None
        try:
            descriptor = self._open(path)
            identity = Identity.of(os.fstat(descriptor))
            if listing and listing.hashes.get(identity) == commit.files[path].sha256:
                return descriptor
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
        if descriptor is not None:
            os.close(descriptor)
        self._listed_at = 0.0
        raise Changed

    def _open(self, path: str) -> int:
        return open_below(self.root, (*self.parts, *path.split("/")))

    def read_next_to(self, ending: str, most: int) -> bytes | None:
        """Read `<name><ending>` next to the folder; None if there is no such file of at most `most` bytes."""
        if not self.parts:  # the served folder itself is the dataset
            return None
        *parents, name = self.parts
        try:
            with open(open_below(self.root, (*parents, name + ending)), "rb") as stream:
                is_small = (now := os.fstat(stream.fileno())).st_size <= most and stat.S_ISREG(now.st_mode)
                data = stream.read(most + 1) if is_small else b""
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            return None
        return data if 0 < len(data) <= most else None

    def _current(self) -> Listing:
        """The listing, made again where it may be out of date."""
        listing = self.listing
        if listing is not None and time.monotonic() - self._listed_at <= LISTING_SECONDS:
            return listing
        if not self._lock.acquire(timeout=0 if listing else LOCK_TIMEOUT):
            if listing is not None:  # another request lists; `open` refuses each file that has changed
                return listing
            text = f"{self.owner}/{self.name} is being read for the first time: ask again"
            raise Refusal(503, text, headers={"Retry-After": "5"})
        try:
            began = time.monotonic()
            if self.listing is None or began - self._listed_at > LISTING_SECONDS:
                self.listing = self._list(dict(self._walk()), self.listing)
                self._listed_at = began
            return self.listing
        finally:
            self._lock.release()

    def _list(self, files: dict[str, Identity], before: Listing | None) -> Listing:
        if before is not None and files == before.files:
            return before
        cached = before.hashes if before else {}
        promised = self._promised(files)
        hashes: dict[Identity, str] = {}
        for path, identity in list(files.items()):
            sha256 = cached.get(identity) or promised.get(path) or self._hash(path, identity)
            if sha256 is None:  # it may not be read, or has changed since
                del files[path]
            else:
                hashes[identity] = sha256
        return Listing(files, hashes, _commit(files, hashes))

    def _hash(self, path: str, identity: Identity) -> str | None:
        """The hash of a file; None if it is not the one that was listed, before or after."""
        if 0 <= time.time() - identity.touched / 1e9 < CLOCK_TICK:
            time.sleep(CLOCK_TICK)
        try:
            with open(self._open(path), "rb") as stream:
                if Identity.of(os.fstat(stream.fileno())) != identity:
                    return None
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
                return sha256 if Identity.of(os.fstat(stream.fileno())) == identity else None
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            if not isinstance(error, FileNotFoundError):
                self._leave_out(path, f"it cannot be read ({error.strerror})")
            return None

    def _walk(self) -> Iterator[tuple[str, Identity]]:
        """Every regular file that a client could ask for."""
        left: list[Parts] = [()]
        while left:
            parts = left.pop()
            with scanned(self.root, (*self.parts, *parts)) as entries:
                for entry in entries:
                    path = "/".join((*parts, entry.name))
                    try:
                        now = entry.stat(follow_symlinks=False)
                    except OSError:  # removed since
                        continue
                    if not is_plain(entry.name):
                        self._leave_out(path, "a client could not ask for this name")
                    elif stat.S_ISDIR(now.st_mode):
                        left.append((*parts, entry.name))
                    elif stat.S_ISREG(now.st_mode):
                        yield path, Identity.of(now)
                    else:
                        self._leave_out(path, "it is a link, a pipe or a device")

    def _leave_out(self, path: str, why: str) -> None:
        report(f"{self.owner}/{self.name}", f"{path} is left out: {why}")

    def _promised(self, files: Mapping[str, Identity]) -> dict[str, str]:
        """Hashes that the manifest gives of files that have its sizes and were not touched after it."""
        manifest = files.get(FILE_NAME)
        if manifest is None or manifest.size > MAX_MANIFEST:
            return {}
        try:
            with open(self._open(FILE_NAME), "rb") as stream:
                if Identity.of(os.fstat(stream.fileno())) != manifest:
                    return {}
                records = undamaged(stream.read(MAX_MANIFEST))["files"]
            return {
                path: records[path]["sha256"]
                for path, file in files.items()
                if path in records and records[path]["bytes"] == file.size
                if file.touched <= manifest.touched and SHA256.fullmatch(records[path]["sha256"])
            }
        except (ShiftdataError, LookupError, TypeError, OSError):  # damaged, but its files are served
            return {}


def _commit(files: Mapping[str, Identity], hashes: Mapping[Identity, str]) -> Commit:
    records = {path: FileRecord(files[path].size, hashes[files[path]]) for path in sorted(files)}
    lines = "".join(f"{path}\0{file.size}\0{file.sha256}\n" for path, file in records.items())
    commit_id = hashlib.sha1(lines.encode(), usedforsecurity=False).hexdigest()
    newest = max((identity.changed for identity in files.values()), default=0)
    return Commit(commit_id, hub_time(newest / 1e9), records)


class Library:
    """The datasets below a folder; a new one appears within a second."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise NotFoundError(f"{root} is not a folder: give the one with your datasets, or make it")
        self.root = root.resolve()
        self._repos: dict[tuple[str, str], Repo] = {}
        self._listed_at = 0.0
        self._lock = threading.Lock()

    def get(self, owner: str, name: str) -> Repo | None:
        return self._current().get((owner, name))

    def heads(self) -> list[tuple[Repo, Commit]]:
        """The repos with their newest commits; one that is just being read for the first time is left out."""
        heads = []
        for _, repo in sorted(self._current().items()):
            with suppress(Refusal):
                heads.append((repo, repo.commit("main")))
        return heads

    def _current(self) -> dict[tuple[str, str], Repo]:
        with self._lock:
            if time.monotonic() - self._listed_at > LISTING_SECONDS or not self._listed_at:
                repos = {}
                for key, parts in find_folders(self.root).items():
                    old = self._repos.get(key)
                    repos[key] = old if old and old.parts == parts else Repo(*key, self.root, parts)
                self._repos, self._listed_at = repos, time.monotonic()
            return self._repos
