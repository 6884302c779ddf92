"""Existing folders as repos: read where they lie, never copied, never changed.

A folder with a manifest.json or a README.md is a repo; any other is an owner, whose sub-folders with one
are repos. A README.md above folders with a manifest is a note, not a card. Symbolic links, and names that
start with a dot, are left out: whatever is swapped meanwhile, nothing is opened through a link below the
served folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import README
from shiftdata.errors import ShiftdataError
from shiftdata.serve.blobs import TOO_MANY, Identity, hash_of
from shiftdata.serve.names import Refusal, file_path, is_repo_part, no_entry, no_revision, report
from shiftdata.serve.repos import OWNER, Changed, Commit, FileRecord, ListedFiles, Settings, hub_time

#: Seconds for which a listing of a folder is believed; of the bytes of files it never is: `FolderRepo.open`.
BELIEVED = 1.0

#: Seconds for which a request waits for another one that lists the same folder.
PATIENCE = 1.0

#: Seconds after which a second change of a file surely has another time: clocks of file systems tick.
TICK = 0.02

#: Bytes of a manifest at most, for its hashes to count.
MOST_MANIFEST = 16 << 20

#: Files by which folders of pages, runs and sweeps are known, which nobody takes for datasets.
OUTPUTS = {"page.json", "made.json", "run.json", "sweep.json"}

#: A folder below the served one: the names that lead to it.
Parts: TypeAlias = tuple[str, ...]


def open_below(root: Path, parts: Parts, flags: int = 0) -> int:
    """Open what lies below a folder, name by name, following no link and waiting for nothing."""
    place = getattr(os, "O_PATH", os.O_RDONLY)  # macOS has none
    descriptor = os.open(root, place | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, place | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | flags, dir_fd=descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def scanned(root: Path, parts: Parts) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a folder that may be served; none where it may not be read, or no longer exists."""
    try:
        descriptor = open_below(root, (*parts, "."), os.O_DIRECTORY)
    except OSError as error:
        if error.errno in TOO_MANY:
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


def find_folders(root: Path, expected: Collection[str] = ()) -> dict[tuple[str, str], Parts]:
    """The repos in a folder, by owner and name; the folder itself, where it is one.

    Sub-folders without a repo are reported, but for those that are `expected` and outputs of this package.
    """
    if _is_repo(root, ()):
        return {(OWNER, root.name): ()} if is_repo_part(root.name) else {}
    found: dict[tuple[str, str], Parts] = {}
    for (child,) in _sub_folders(root, ()):
        if _is_repo(root, (child,)):
            found[OWNER, child] = (child,)
            continue
        inner = _sub_folders(root, (child,))
        below = [parts for parts in inner if _is_repo(root, parts)]
        found |= {(child, parts[-1]): parts for parts in below}
        if not (below or child in expected or _is_output(root, [(child,), *inner])):
            report(child, f"it is not served: a dataset has a {FILE_NAME} or a {README}, and it has neither")
    return found


def _sub_folders(root: Path, parts: Parts) -> list[Parts]:
    found = []
    with scanned(root, parts) as entries:
        for entry in entries:
            if not is_repo_part(entry.name):
                report(
                    "/".join((*parts, entry.name)), "it is not served: a client could not ask for this name"
                )
            elif entry.is_symlink():
                report("/".join((*parts, entry.name)), "it is not served: it is a symbolic link")
            elif entry.is_dir(follow_symlinks=False):
                found.append((*parts, entry.name))
    return sorted(found)


def _is_repo(root: Path, parts: Parts) -> bool:
    """Whether a folder is a dataset: by its manifest, or by its card, if it is not a note above datasets."""
    names = _file_names(root, parts)
    if FILE_NAME in names or README not in names:
        return FILE_NAME in names
    return not any(FILE_NAME in _file_names(root, below) for below in _sub_folders(root, parts))


def _is_output(root: Path, folders: Sequence[Parts]) -> bool:
    return any(not OUTPUTS.isdisjoint(_file_names(root, parts)) for parts in folders)


def _file_names(root: Path, parts: Parts) -> set[str]:
    with scanned(root, parts) as entries:
        return {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}


#: Files of a folder, each as it was when it was listed.
Seen: TypeAlias = dict[str, Identity]


@dataclass(frozen=True)
class _Listing:
    """What a folder contained, and the hashes of it; those of `promised` are the manifest's."""

    seen: Seen
    hashes: Mapping[Identity, str]
    promised: frozenset[str]
    commit: Commit


@dataclass
class FolderRepo:
    """A folder as a repo with one branch, `main`, whose commit id changes whenever a file does.

    A file that is opened and is no longer the one that was listed makes it list again: no bytes go out under
    the hash of others.
    """

    owner: str
    name: str
    root: Path
    parts: Parts
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _listing: _Listing | None = field(default=None, repr=False)
    _listed: float = field(default=0.0, repr=False)

    def settings(self) -> Settings:
        return Settings()

    def refs(self, kind: str) -> dict[str, str]:
        return {"main": self._now().commit.id} if kind == "heads" else {}

    def commit(self, revision: str) -> Commit:
        commit = self._now().commit
        if revision not in ("main", commit.id):
            raise no_revision(revision)
        return commit

    def history(self, revision: str) -> Iterator[Commit]:
        yield self.commit(revision)

    def open(self, commit: Commit, path: str) -> int:
        """A descriptor of a file that is still the one that was listed; else `Changed`."""
        listing = self._listing
        if path not in commit.files:
            raise no_entry(path)
        descriptor = None
        try:
            descriptor = self._open(path)
            identity = Identity.of(os.fstat(descriptor))
            if listing and listing.hashes.get(identity) == commit.files[path].sha256:
                return descriptor
        except OSError as error:
            if error.errno in TOO_MANY:
                raise
        if descriptor is not None:
            os.close(descriptor)
        self._listed = 0.0
        raise Changed

    def check(self, rest: Callable[[float], None]) -> None:
        """Hash the files for which the manifest's hash was taken; one that has another gets its own."""
        listing = self._now()
        for path in sorted(listing.promised):
            found = self._hash(path, listing.seen[path], rest)
            if found is None or found == listing.hashes[listing.seen[path]]:
                continue
            report(
                f"{self.owner}/{self.name}", f"{path} is not what the manifest says: it is served as it is"
            )
            with self._lock:
                now = self._listing
                if now is not None:
                    hashes = {**now.hashes, listing.seen[path]: found}
                    self._listing, self._listed = replace(now, seen={}, hashes=hashes), 0.0

    def _open(self, path: str) -> int:
        return open_below(self.root, (*self.parts, *path.split("/")))

    def _now(self) -> _Listing:
        """The listing, made again where it may be out of date."""
        listing = self._listing
        if listing is not None and time.monotonic() - self._listed <= BELIEVED:
            return listing
        if not self._lock.acquire(timeout=0 if listing else PATIENCE):
            if listing is not None:  # another request lists; of a file that changed, no byte is sent
                return listing
            text = f"{self.owner}/{self.name} is being read for the first time: ask again"
            raise Refusal(503, text, headers={"Retry-After": "5"})
        try:
            began = time.monotonic()
            if self._listing is None or began - self._listed > BELIEVED:
                self._listing = self._list(dict(self._walk()), self._listing)
                self._listed = began
            return self._listing
        finally:
            self._lock.release()

    def _list(self, seen: Seen, before: _Listing | None) -> _Listing:
        """The commit of these files; the one before where nothing has changed."""
        if before is not None and seen == before.seen:
            return before
        known = before.hashes if before else {}
        promised = {path: sha256 for path, sha256 in self._promised(seen).items() if seen[path] not in known}
        hashes: dict[Identity, str] = {}
        for path, identity in list(seen.items()):
            found = known.get(identity) or promised.get(path) or self._hash(path, identity)
            if found is None:  # it may not be read, or changes, or was removed since
                del seen[path]
            else:
                hashes[identity] = found
        kept = frozenset(path for path in promised if path in seen)
        kept |= {path for path in before.promised if before.seen.get(path) in hashes} if before else set()
        newest = max((identity.changed for identity in seen.values()), default=0)
        return _Listing(seen, hashes, kept & seen.keys(), _commit(seen, hashes, newest))

    def _hash(
        self, path: str, identity: Identity, rest: Callable[[float], None] = lambda seconds: None
    ) -> str | None:
        """The hash of a file; None if it is not the one that was listed, before or after."""
        if 0 <= time.time() - identity.touched / 1e9 < TICK:
            time.sleep(TICK)
        try:
            descriptor = self._open(path)
        except OSError as error:
            if error.errno in TOO_MANY:
                raise
            if not isinstance(error, FileNotFoundError):
                report(
                    f"{self.owner}/{self.name}", f"{path} cannot be read ({error.strerror}): it is left out"
                )
            return None
        try:
            same = Identity.of(os.fstat(descriptor)) == identity
            found = hash_of(descriptor, rest) if same else ""
            return found if same and Identity.of(os.fstat(descriptor)) == identity else None
        finally:
            os.close(descriptor)

    def _walk(self) -> Iterator[tuple[str, Identity]]:
        """Every regular file that a client could ask for."""
        left: list[Parts] = [()]
        while left:
            parts = left.pop()
            with scanned(self.root, (*self.parts, *parts)) as entries:
                for entry in entries:
                    try:
                        path = file_path("/".join((*parts, entry.name)))
                        now = entry.stat(follow_symlinks=False)
                    except Refusal:
                        self._leave_out((*parts, entry.name), "a client could not ask for this name")
                        continue
                    except OSError:  # removed since
                        continue
                    if stat.S_ISDIR(now.st_mode):
                        left.append((*parts, entry.name))
                    elif stat.S_ISREG(now.st_mode):
                        yield path, Identity.of(now)
                    else:
                        self._leave_out((*parts, entry.name), "it is a link, a pipe or a device")

    def _leave_out(self, parts: Parts, why: str) -> None:
        report(f"{self.owner}/{self.name}", f"{'/'.join(parts)} is left out: {why}")

    def _promised(self, seen: Seen) -> dict[str, str]:
        """Hashes that the manifest gives of files that have its sizes and were not touched after it."""
        manifest = seen.get(FILE_NAME)
        if manifest is None or manifest.size > MOST_MANIFEST:
            return {}
        try:
            with open(self._open(FILE_NAME), "rb") as stream:
                if Identity.of(os.fstat(stream.fileno())) != manifest:
                    return {}
                records = Manifest.from_json(stream.read(MOST_MANIFEST).decode()).files
        except (ShiftdataError, ValueError, OSError, RecursionError):  # damaged, but its files are served
            return {}
        return {
            path: records[path].sha256
            for path, file in seen.items()
            if path in records and records[path].bytes == file.size and file.touched <= manifest.touched
        }


def _commit(seen: Seen, hashes: Mapping[Identity, str], newest: int) -> Commit:
    files = {path: FileRecord(seen[path].size, hashes[seen[path]]) for path in sorted(seen)}
    lines = "".join(f"{path}\0{file.size}\0{file.sha256}\n" for path, file in files.items())
    commit_id = hashlib.sha1(lines.encode(), usedforsecurity=False).hexdigest()
    size = sum(file.size for file in files.values())
    date = hub_time(newest / 1e9)
    return Commit(commit_id, date, "The folder as it is", "", None, ListedFiles(files, commit_id), size)
