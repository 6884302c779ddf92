"""Existing folders as repos: read where they lie, never copied, never changed.

A folder with a manifest.json, a README.md or any other file is a repo; one with sub-folders only is an owner,
whose sub-folders are repos. Links out of the served folder, and names that start with a dot, are left out.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shiftdata.errors import ShiftdataError
from shiftdata.files import sha256_of
from shiftdata.format.manifest import FILE_NAME, Manifest
from shiftdata.serving.names import Refusal, file_path, is_repo_part, no_entry, no_revision
from shiftdata.serving.repos import OWNER, Changed, Commit, FileRecord, Settings, hub_time

#: Seconds for which a listing of a folder is believed; of the bytes of files it never is: `FolderRepo.open`.
BELIEVED = 1.0


def find_folders(root: Path) -> dict[tuple[str, str], Path]:
    """The repos in a folder, by owner and name; the folder itself, where it is one."""
    if _has_files(root):
        return {(OWNER, root.name): root} if is_repo_part(root.name) else {}
    found = {}
    for child in _sub_folders(root, root):
        if _has_files(child):
            found[OWNER, child.name] = child
        else:
            inside = _sub_folders(child, root)
            found |= {(child.name, path.name): path for path in inside if _has_files(path)}
    return found


def links_out(root: Path) -> list[str]:
    """Entries of a folder that would be repos or owners, but are links that lead out of it."""
    inside = set(_sub_folders(root, root))
    return [
        path.name
        for path in sorted(root.iterdir())
        if is_repo_part(path.name) and path.is_dir() and path not in inside
    ]


def _sub_folders(folder: Path, root: Path) -> list[Path]:
    children = sorted(Path(entry.path) for entry in _entries(folder) if is_repo_part(entry.name))
    return [child for child in children if child.is_dir() and child.resolve().is_relative_to(root)]


def _has_files(folder: Path) -> bool:
    return any(not entry.name.startswith(".") and entry.is_file() for entry in _entries(folder))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder; none where it may not be read, or no longer exists."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


@dataclass(frozen=True)
class _Seen:
    """A file as it was when its hash was computed."""

    path: Path  # with no link in it
    size: int
    changed: int


@dataclass
class FolderRepo:
    """A folder as a repo with one branch, `main`, whose commit id changes whenever a file does.

    A file that is opened and is no longer the one that was listed makes it list again: no bytes go out under
    the hash of others.
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
        return Settings()

    def refs(self, kind: str) -> dict[str, str]:
        return {"main": self._now().id} if kind == "heads" else {}

    def commit(self, revision: str) -> Commit:
        commit = self._now()
        if revision not in ("main", commit.id):
            raise no_revision(revision)
        return commit

    def history(self, revision: str) -> list[Commit]:
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
        same = (now.st_size, now.st_mtime_ns) == (seen.size, seen.changed) and stat.S_ISREG(now.st_mode)
        if same and self._hashes.get(seen) == commit.files[path].sha256:
            return descriptor
        os.close(descriptor)
        self._listed = 0.0
        raise Changed

    def _now(self) -> Commit:
        """The listing, made again where it may be out of date."""
        with self._lock:
            began = time.monotonic()
            if self._commit is None or began - self._listed > BELIEVED:
                self._commit = self._list(dict(sorted(self._walk(self.folder, ""))), self._commit)
                self._listed = began
            return self._commit

    def _list(self, seen: dict[str, _Seen], before: Commit | None) -> Commit:
        """The commit of these files; the one before where nothing has changed."""
        if before is not None and seen == self._seen:
            return before
        promised = self._promised(seen)
        hashes = {}
        for path, file in list(seen.items()):
            try:
                hashes[file] = self._hashes.get(file) or promised.get(path) or sha256_of(file.path)
            except OSError:  # it may not be read, or was removed since
                del seen[path]
        files = {path: FileRecord(file.size, hashes[file]) for path, file in seen.items()}
        lines = "".join(f"{path}\0{file.size}\0{file.sha256}\n" for path, file in files.items())
        commit_id = hashlib.sha1(lines.encode(), usedforsecurity=False).hexdigest()
        newest = max((file.changed for file in seen.values()), default=0)
        self._hashes, self._seen = hashes, seen
        return Commit(commit_id, hub_time(newest / 1e9), "The folder as it is", "", None, files)

    def _walk(self, folder: Path, before: str) -> Iterator[tuple[str, _Seen]]:
        for entry in _entries(folder):
            path = before + entry.name
            if entry.name.startswith("."):
                continue
            try:
                file_path(path)
            except Refusal:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path), f"{path}/")
            elif (file := self._file(entry)) is not None:
                yield path, file

    def _file(self, entry: os.DirEntry[str]) -> _Seen | None:
        """A regular file inside the served folder, perhaps through a link; None for anything else."""
        try:
            real = Path(entry.path).resolve(strict=True) if entry.is_symlink() else Path(entry.path)
            now = real.stat()
        except OSError:  # removed since, or a link to nowhere
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
        except (ShiftdataError, ValueError):  # damaged, but its files are served
            return {}
        return {
            path: records[path].sha256
            for path, file in seen.items()
            if path in records and records[path].bytes == file.size and file.changed <= manifest.changed
        }
