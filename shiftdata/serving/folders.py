"""Existing folders as repos: read where they lie, never copied, never changed.

A folder with a manifest.json, a README.md or any other file is a repo; one with sub-folders only is an owner,
whose sub-folders are repos. Links out of the served folder, and names that start with a dot, are not there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shiftdata.errors import ShiftdataError
from shiftdata.files import sha256_of
from shiftdata.format.manifest import FILE_NAME, Manifest
from shiftdata.serving.paths import file_path, is_repo_part
from shiftdata.serving.refusals import Refusal, no_entry, no_revision
from shiftdata.serving.repos import Changed, Commit, FileRecord, Refs, Settings, hub_time

OWNER = "shift"

#: Seconds for which a listing of a folder is believed; of the bytes of files it never is: `FolderRepo.open`.
BELIEVED = 1.0


def find_folders(root: Path) -> dict[tuple[str, str], Path]:
    """The repos in a folder, by owner and name; the folder itself, where it is one."""
    if _holds_files(root):
        return {(OWNER, root.name): root} if is_repo_part(root.name) else {}
    found = {}
    for child in _sub_folders(root, root):
        if _holds_files(child):
            found[OWNER, child.name] = child
            continue
        for grandchild in _sub_folders(child, root):
            if _holds_files(grandchild):
                found[child.name, grandchild.name] = grandchild
    return found


def _sub_folders(folder: Path, root: Path) -> Iterator[Path]:
    with _entries(folder) as entries:
        children = sorted(folder / entry.name for entry in entries)
    for child in children:
        if is_repo_part(child.name) and child.is_dir() and child.resolve().is_relative_to(root):
            yield child


@contextmanager
def _entries(folder: Path) -> Iterator[Iterable[os.DirEntry[str]]]:
    """The entries of a folder; none where it may not be read, or is gone."""
    try:
        found = os.scandir(folder)
    except OSError:
        yield []
        return
    with found:
        yield found


def links_out(root: Path) -> list[str]:
    """Entries of a folder that would be repos or owners, but are links that lead out of it."""
    return [
        child.name
        for child in sorted(root.iterdir())
        if is_repo_part(child.name) and child.is_dir() and not child.resolve().is_relative_to(root)
    ]


def _holds_files(folder: Path) -> bool:
    with _entries(folder) as entries:
        return any(not entry.name.startswith(".") and entry.is_file() for entry in entries)


@dataclass(frozen=True)
class _Seen:
    """A file as it was when its hash was found."""

    path: Path  # with no link in it
    size: int
    changed: int


@dataclass
class FolderRepo:
    """A folder as a repo with one branch, `main`, whose commit id changes whenever a file does.

    The folder is listed anew when the last listing is a second old, and at once where a file that is opened
    is no longer the one that was listed: no bytes go out under the hash of others.
    """

    owner: str
    name: str
    folder: Path
    root: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _hashes: dict[_Seen, str] = field(default_factory=dict, repr=False)
    _seen: dict[str, _Seen] = field(default_factory=dict, repr=False)
    _commit: Commit | None = field(default=None, repr=False)
    _listed: float = field(default=0.0, repr=False)

    def settings(self) -> Settings:
        """A folder is for everyone who may read the server."""
        return Settings()

    def refs(self) -> Refs:
        """The one branch."""
        return Refs({"main": self._now().id})

    def commit(self, revision: str) -> Commit:
        """The folder as it is now."""
        commit = self._now()
        if revision not in ("main", commit.id):
            raise no_revision(revision)
        return commit

    def history(self, revision: str) -> list[Commit]:
        """A folder has no past."""
        return [self.commit(revision)]

    def open(self, commit: Commit, path: str) -> int:
        """A descriptor of a file that is still the one that was listed; else `Changed`."""
        seen = self._seen.get(path)
        if path not in commit.files or seen is None:
            raise no_entry(path)
        try:
            # Without waiting, should it have become a pipe; not through a link that was put there since.
            descriptor = os.open(seen.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            self._listed = 0.0
            raise Changed from None
        now = os.fstat(descriptor)
        if (now.st_size, now.st_mtime_ns) == (seen.size, seen.changed) and stat.S_ISREG(now.st_mode):
            record = commit.files[path]
            if self._hashes.get(seen) == record.sha256:
                return descriptor
        os.close(descriptor)
        self._listed = 0.0
        raise Changed

    def _now(self) -> Commit:
        """The listing, made anew where it may be out of date."""
        with self._lock:
            if self._commit is None or time.monotonic() - self._listed > BELIEVED:
                began = time.monotonic()
                self._list()
                self._listed = began
            assert self._commit is not None
            return self._commit

    def _list(self) -> None:
        seen = dict(sorted(self._walk(self.folder, "")))
        if self._commit is not None and seen == self._seen:
            return
        promised = self._promised(seen)
        hashes = {}
        for path, file in list(seen.items()):
            try:
                hashes[file] = self._hashes.get(file) or promised.get(path) or sha256_of(file.path)
            except OSError:  # it may not be read, or is gone since
                del seen[path]
        files = {path: FileRecord(file.size, hashes[file]) for path, file in seen.items()}
        lines = "".join(f"{path}\0{file.size}\0{file.sha256}\n" for path, file in files.items())
        commit_id = hashlib.sha1(lines.encode(), usedforsecurity=False).hexdigest()
        newest = max((file.changed for file in seen.values()), default=0)
        self._hashes, self._seen = hashes, seen
        self._commit = Commit(commit_id, hub_time(newest / 1e9), "The folder as it is", "", None, files)

    def _walk(self, folder: Path, before: str) -> Iterator[tuple[str, _Seen]]:
        with _entries(folder) as entries:
            for entry in entries:
                path = before + entry.name
                if entry.name.startswith(".") or not _is_plain(path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(Path(entry.path), f"{path}/")
                elif (file := self._file(entry)) is not None:
                    yield path, file

    def _file(self, entry: os.DirEntry[str]) -> _Seen | None:
        """A regular file inside the served folder, be it through a link; None for anything else."""
        try:
            real = Path(entry.path).resolve(strict=True) if entry.is_symlink() else Path(entry.path)
            now = real.stat()
        except OSError:  # gone since, or a link to nowhere
            return None
        if not real.is_relative_to(self.root) or not stat.S_ISREG(now.st_mode):
            return None
        if any(part.startswith(".") for part in real.relative_to(self.root).parts):
            return None
        return _Seen(real, now.st_size, now.st_mtime_ns)

    def _promised(self, seen: Mapping[str, _Seen]) -> dict[str, str]:
        """Hashes that the manifest gives of files that have its sizes and are no younger than it."""
        manifest = seen.get(FILE_NAME)
        if manifest is None:
            return {}
        try:
            records = Manifest.read(self.folder).files
        except (ShiftdataError, ValueError):  # damaged: the files are served all the same, for who repairs it
            return {}
        return {
            path: records[path].sha256
            for path, file in seen.items()
            if path in records and records[path].bytes == file.size and file.changed <= manifest.changed
        }


def _is_plain(path: str) -> bool:
    """Whether clients can name it."""
    try:
        file_path(path)
    except Refusal:
        return False
    return True
