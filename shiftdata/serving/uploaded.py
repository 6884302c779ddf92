"""What clients upload: files by their sha256; repos of commits (JSON), branches and tags, under `.mirror`.

    blobs/<two digits>/<sha256>           an uploaded file, whole and on the disk
    repos/datasets/<owner>/<name>/settings.json
                                  commits/<id>.json      every file of the commit: size, sha256, git's id
                                  heads/<branch>         the id of a commit; a slash is written %2F
                                  tags/<tag>

A commit exists when its branch's file has been replaced, which is one rename; all that it names was synced
before.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote, unquote

from shiftdata.serving.names import COMMIT_ID, Refusal, check_tree, is_ref, no_entry, no_repo, no_revision
from shiftdata.serving.repos import Commit, FileRecord, Settings, hub_time

#: Bytes of the disk that an upload must leave free.
RESERVE = 64 << 20


class Incoming:
    """A file that is being received: `move` gives it its place, `drop` removes what was not moved."""

    def __init__(self, folder: Path) -> None:
        descriptor, name = tempfile.mkstemp(dir=folder, prefix="upload-")
        self.path, self.size = Path(name), 0
        self.file, self._hash = os.fdopen(descriptor, "wb"), hashlib.sha256()

    def drop(self) -> None:
        with suppress(OSError):  # a full disk is reported where it is met
            self.file.close()
        self.path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self._hash.update(data)
        self.size += len(data)

    def move(self, place: Path) -> None:
        """Put it durably into its place: what is there is the old file, or this one."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        place.parent.mkdir(parents=True, exist_ok=True)
        self.path.replace(place)
        sync_folder(place.parent)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class Blobs:
    """Uploaded files, each once; `tmp` is for what is on its way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "blobs"
        self.tmp = folder / "tmp"

    def prepare(self) -> None:
        """Make the folders, and clear what was on its way when a server was killed."""
        shutil.rmtree(self.tmp, ignore_errors=True)
        for folder in (self.folder, self.tmp):
            folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256

    def size(self, sha256: str) -> int | None:
        """The size of a blob; None if it is not here."""
        try:
            return self.path(sha256).stat().st_size
        except FileNotFoundError:
            return None

    def receive(self) -> Incoming:
        return Incoming(self.tmp)

    def write(self, path: Path, content: bytes) -> None:
        incoming = self.receive()
        try:
            incoming.write(content)
            incoming.move(path)
        finally:
            incoming.drop()

    def keep(self, incoming: Incoming) -> str:
        """Put a received file among the blobs, durably; return its hash."""
        if self.size(incoming.sha256) != incoming.size:
            incoming.path.chmod(0o444)
            incoming.move(self.path(incoming.sha256))
            sync_folder(self.folder)
        return incoming.sha256

    def check_room(self, size: int) -> None:
        free = shutil.disk_usage(self.tmp).free - RESERVE
        if size > free:
            raise Refusal(507, f"the mirror's disk has room for {max(free, 0):,} bytes, not for {size:,}")


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


#: Makes the files of a commit from the commit before it.
Change: TypeAlias = Callable[[Commit], Mapping[str, FileRecord]]

#: Files of a repo at most: every commit lists them all.
MOST_FILES = 200_000


@dataclass(frozen=True)
class UploadedRepo:
    """A repo under `.mirror`."""

    owner: str
    name: str
    folder: Path
    blobs: Blobs
    lock: threading.Lock = field(repr=False, compare=False)

    def make(self, settings: Settings) -> None:
        self._write_settings(settings)
        first = _write_commit(self.folder, self.blobs, "initial commit", "", None, {})
        self._set_ref("heads", "main", first)

    def settings(self) -> Settings:
        """Who may read it; where that cannot be read, nobody without the token."""
        try:
            return Settings(**json.loads((self.folder / "settings.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return Settings(private=True)

    def change_settings(self, settings: Settings) -> None:
        with self.lock:
            if not self.folder.is_dir():  # deleted by another request
                raise no_repo(self.owner, self.name)
            self._write_settings(settings)

    def refs(self, kind: str) -> dict[str, str]:
        folder = self.folder / kind
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        return {unquote(path.name): path.read_text().strip() for path in paths}

    def commit(self, revision: str) -> Commit:
        commit_id = revision if COMMIT_ID.fullmatch(revision) else None
        for kind in ("heads", "tags"):
            if commit_id is None and is_ref(revision) and (path := self._path(kind, revision)).is_file():
                commit_id = path.read_text().strip()
        if commit_id is None or not (path := self.folder / "commits" / f"{commit_id}.json").is_file():
            raise no_revision(revision)
        return _read_commit(path)

    def history(self, revision: str) -> list[Commit]:
        found = [self.commit(revision)]
        while (parent := found[-1].parent) is not None:
            found.append(self.commit(parent))
        return found

    def open(self, commit: Commit, path: str) -> int:
        if path not in commit.files:
            raise no_entry(path)
        return os.open(self.blobs.path(commit.files[path].sha256), os.O_RDONLY)

    def add_commit(
        self, branch: str, change: Change, *, title: str, message: str, parent: str | None
    ) -> Commit:
        """Add one commit to a branch.

        A change that changes nothing returns the commit before it: one that is sent twice does no harm.
        """
        with self.lock:
            if branch not in self.refs("heads"):
                raise no_revision(branch)
            before = self.commit(branch)
            if parent is not None and parent != before.id:
                text = f"{branch} has moved on to {before.id}: this commit was made for another parent"
                raise Refusal(412, text)
            files = change(before)
            if files == before.files:
                return before
            if len(files) > MOST_FILES:
                raise Refusal(413, f"a repo may have {MOST_FILES:,} files at most")
            check_tree(files.keys())
            made = _write_commit(self.folder, self.blobs, title, message, before.id, files)
            self._set_ref("heads", branch, made)
            return self.commit(made)

    def add_ref(self, kind: str, name: str, revision: str) -> None:
        if not is_ref(name):
            allowed = "letters, digits, . _ - + and / between"
            raise Refusal(400, f"{name[:100]!a} cannot name a branch or tag: use {allowed}")
        with self.lock:
            target = self.commit(revision).id
            if self._path(kind, name).exists():
                raise Refusal(409, f"{self.owner}/{self.name} has {name} already")
            self._set_ref(kind, name, target)

    def delete_ref(self, kind: str, name: str) -> None:
        """Delete a branch or a tag; its commits stay."""
        if (kind, name) == ("heads", "main"):
            raise Refusal(403, "the branch main cannot be deleted")
        with self.lock:
            if not is_ref(name) or not (path := self._path(kind, name)).exists():
                raise no_revision(name)
            path.unlink()
            sync_folder(path.parent)

    def _path(self, kind: str, name: str) -> Path:
        return self.folder / kind / quote(name, safe="")

    def _set_ref(self, kind: str, name: str, commit_id: str) -> None:
        self.blobs.write(self._path(kind, name), commit_id.encode())

    def _write_settings(self, settings: Settings) -> None:
        self.blobs.write(self.folder / "settings.json", json.dumps(asdict(settings)).encode())


def _write_commit(
    folder: Path, blobs: Blobs, title: str, message: str, parent: str | None, files: Mapping[str, FileRecord]
) -> str:
    """Write a commit, which nothing names yet; return its id, a hash of its content."""
    commit = {
        "date": hub_time(time.time()),
        "title": title,
        "message": message,
        "parent": parent,
        "files": {path: [file.size, file.sha256, file.git] for path, file in sorted(files.items())},
    }
    content = json.dumps(commit, separators=(",", ":")).encode()
    commit_id = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    blobs.write(folder / "commits" / f"{commit_id}.json", content)
    return commit_id


@lru_cache(maxsize=32)
def _read_commit(path: Path) -> Commit:
    commit = json.loads(path.read_bytes())
    files = {name: FileRecord(*record) for name, record in commit.pop("files").items()}
    return Commit(id=path.stem, files=files, **commit)
