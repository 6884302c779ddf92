"""All repos of a server: the folders that were there, and what clients have uploaded."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from shiftdata.errors import NotFoundError, StorageError
from shiftdata.serving.blobs import write_whole
from shiftdata.serving.folders import BELIEVED, FolderRepo, find_folders
from shiftdata.serving.paths import is_repo_part
from shiftdata.serving.refusals import Refusal, no_repo
from shiftdata.serving.repos import Repo, Settings
from shiftdata.serving.store import Store, StoredRepo


class Library:
    """The repos below a folder. Only one server may be writable there; it holds a lock until `close`."""

    def __init__(self, root: Path, *, writable: bool = False) -> None:
        if not root.is_dir():
            raise NotFoundError(f"{root} is no folder: give the one with your datasets, or make it")
        self.root = root.resolve()
        self.writable = writable
        self.store = Store(self.root / ".mirror")
        self._folders: dict[tuple[str, str], FolderRepo] = {}
        self._looked = 0.0
        self._looking = threading.Lock()
        self._held = self._hold() if writable else None
        self.key = self._key() if writable else os.urandom(32)  # it signs upload URLs

    def close(self) -> None:
        """Let another server write."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _hold(self) -> int:
        try:
            self.store.folder.mkdir(exist_ok=True)
            descriptor = os.open(self.store.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                f"cannot write below {self.root} ({error}): serve it without --writable"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise StorageError(
                f"another writable server runs on {self.root}: stop it, or serve without --writable"
            ) from None
        return descriptor

    def _key(self) -> bytes:
        """The key of upload URLs, which stay good when the server starts again."""
        self.store.prepare()
        path = self.store.folder / "key"
        if not path.exists():
            write_whole(path, os.urandom(32), self.store.blobs.tmp)
        return path.read_bytes()

    def repos(self) -> Iterator[Repo]:
        """Every repo, by name."""
        folders = self.folders()
        stored = {(repo.owner, repo.name): repo for repo in self.store.repos()}
        every: dict[tuple[str, str], Repo] = {**stored, **folders}
        for key in sorted(every):
            yield every[key]

    def folders(self) -> dict[tuple[str, str], FolderRepo]:
        """The folders that are repos; a new one is seen within a second."""
        with self._looking:
            if time.monotonic() - self._looked > BELIEVED or not self._looked:
                found = find_folders(self.root)
                self._folders = {
                    key: self._folders.get(key) or FolderRepo(*key, folder, self.root)
                    for key, folder in found.items()
                }
                self._looked = time.monotonic()
            return self._folders

    def get(self, owner: str, name: str) -> Repo:
        """The repo of that name."""
        repo = self.folders().get((owner, name)) or self.store.get(owner, name)
        if repo is None:
            raise no_repo(owner, name)
        return repo

    def to_write(self, owner: str, name: str) -> StoredRepo:
        """The repo of that name, if clients may change it."""
        self.check_writable()
        repo = self.get(owner, name)
        if not isinstance(repo, StoredRepo):
            raise Refusal(
                403,
                f"{owner}/{name} is a folder of the server, which clients cannot change: "
                "change the folder, or publish under another name",
            )
        return repo

    def create(self, owner: str, name: str, settings: Settings) -> None:
        """Make a repo."""
        self.check_writable()
        if not is_repo_part(owner) or not is_repo_part(name):
            raise Refusal(400, "a dataset is <owner>/<name>: letters, digits, '-', '_', '.', 96 at most")
        if (owner, name) in self.folders():
            raise Refusal(409, f"the dataset {owner}/{name} is here already, as a folder of the server")
        self.store.create(owner, name, settings)

    def check_writable(self) -> None:
        """Refuse a change where the server is read-only."""
        if not self.writable:
            raise Refusal(403, "this mirror is read-only: whoever runs it can start it with --writable")
