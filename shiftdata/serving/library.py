"""All repos of a server: the folders that were there, and what clients have uploaded."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from shiftdata.errors import NotFoundError, StorageError
from shiftdata.files import locked
from shiftdata.serving.folders import BELIEVED, FolderRepo, find_folders
from shiftdata.serving.names import Refusal, is_repo_part, no_repo
from shiftdata.serving.repos import Settings
from shiftdata.serving.uploaded import Blobs, UploadedRepo, sync_folder

Repo: TypeAlias = FolderRepo | UploadedRepo


class Library:
    """The repos below a folder; uploads are kept in its sub-folder `.mirror`.

    Only one server may be writable there; it has a lock until `close`.
    """

    def __init__(self, root: Path, *, writable: bool = False) -> None:
        if not root.is_dir():
            raise NotFoundError(f"{root} is not a folder: give the one with your datasets, or make it")
        self.root, self.writable = root.resolve(), writable
        self.folder = self.root / ".mirror"
        self.blobs = Blobs(self.folder)
        self._uploaded = self.folder / "repos" / "datasets"
        self._folders: dict[tuple[str, str], FolderRepo] = {}
        self._looked = 0.0
        self._lock = threading.Lock()
        self._repo_locks: dict[tuple[str, str], threading.Lock] = {}
        self._writing = ExitStack()
        self.key = self._prepare() if writable else os.urandom(32)  # it signs upload URLs

    def close(self) -> None:
        self._writing.close()

    def _prepare(self) -> bytes:
        """Lock the folder, clear what an earlier server left half done, and return the key that it used."""
        try:
            self.folder.mkdir(exist_ok=True)
            message = f"another writable server runs on {self.root}: stop it, or serve without --writable"
            self._writing.enter_context(locked(self.folder / "lock", message))
        except OSError as error:
            raise StorageError(
                f"cannot write below {self.root} ({error}): serve it without --writable"
            ) from error
        self._uploaded.mkdir(parents=True, exist_ok=True)
        self.blobs.prepare()
        path = self.folder / "key"
        if not path.exists():
            self.blobs.write(path, os.urandom(32))
        return path.read_bytes()

    def repos(self) -> list[Repo]:
        found: dict[tuple[str, str], Repo] = {}
        for path in self._uploaded.glob("*/*"):
            if (repo := self._get_uploaded(path.parent.name, path.name)) is not None:
                found[repo.owner, repo.name] = repo
        found |= self._get_folders()
        return [found[key] for key in sorted(found)]

    def get(self, owner: str, name: str) -> Repo | None:
        return self._get_folders().get((owner, name)) or self._get_uploaded(owner, name)

    def to_write(self, owner: str, name: str) -> UploadedRepo:
        self.check_writable()
        repo = self.get(owner, name)
        if repo is None:
            raise no_repo(owner, name)
        if isinstance(repo, FolderRepo):
            text = f"{owner}/{name} is a folder of the server, which clients cannot change"
            raise Refusal(403, f"{text}: change the folder, or publish under another name")
        return repo

    def create(self, owner: str, name: str, settings: Settings) -> None:
        """Make a repo; it appears with one rename."""
        self.check_writable()
        if not is_repo_part(owner) or not is_repo_part(name):
            raise Refusal(400, "a dataset is <owner>/<name>: letters, digits, '-', '_', '.', 96 at most")
        if (owner, name) in self._get_folders():
            raise Refusal(409, f"the dataset {owner}/{name} exists already, as a folder of the server")
        made, place = self.blobs.tmp / uuid.uuid4().hex, self._uploaded / owner / name
        UploadedRepo(owner, name, made, self.blobs, threading.Lock()).make(settings)
        with self._lock:
            place.parent.mkdir(exist_ok=True)
            if place.exists():
                shutil.rmtree(made)
                raise Refusal(409, f"the dataset {owner}/{name} exists already")
            made.rename(place)
            sync_folder(place.parent)

    def delete(self, owner: str, name: str) -> None:
        """Delete a repo; blobs stay, since other repos may use the same."""
        repo = self.to_write(owner, name)
        away = self.blobs.tmp / uuid.uuid4().hex
        with repo.lock:
            repo.folder.rename(away)
            sync_folder(repo.folder.parent)
        shutil.rmtree(away)

    def check_writable(self) -> None:
        if not self.writable:
            raise Refusal(403, "this mirror is read-only: whoever runs it can start it with --writable")

    def _get_folders(self) -> dict[tuple[str, str], FolderRepo]:
        """The folders that are repos; a new one is seen within a second."""
        with self._lock:
            if time.monotonic() - self._looked > BELIEVED or not self._looked:
                self._folders = {
                    key: self._folders.get(key) or FolderRepo(*key, folder, self.root)
                    for key, folder in find_folders(self.root).items()
                }
                self._looked = time.monotonic()
            return self._folders

    def _get_uploaded(self, owner: str, name: str) -> UploadedRepo | None:
        if not is_repo_part(owner) or not is_repo_part(name):
            return None
        folder = self._uploaded / owner / name
        if not (folder / "heads" / "main").is_file():
            return None
        lock = self._repo_locks.setdefault((owner, name), threading.Lock())
        return UploadedRepo(owner, name, folder, self.blobs, lock)
