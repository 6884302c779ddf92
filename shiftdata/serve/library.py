"""All repos of a server: the folders that were there, and what clients have uploaded."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeAlias

from shiftdata.errors import NotFoundError, StorageError
from shiftdata.files import locked
from shiftdata.serve.blobs import Blobs, make_folder, names_in, read_small, sync_folder
from shiftdata.serve.folders import BELIEVED, FolderRepo, find_folders
from shiftdata.serve.names import Refusal, is_repo_part, no_repo, report
from shiftdata.serve.repos import Commit, Settings
from shiftdata.serve.uploaded import UploadedRepo

Repo: TypeAlias = FolderRepo | UploadedRepo

KEY_BYTES = 32


class Library:
    """The repos below a folder; uploads are kept in its sub-folder `.mirror`.

    Only one server may be writable there; it has a lock until `close`. `results` may lie below it too.
    """

    def __init__(self, root: Path, *, writable: bool = False, results: Iterable[Path] = ()) -> None:
        if not root.is_dir():
            raise NotFoundError(f"{root} is not a folder: give the one with your datasets, or make it")
        self.root, self.writable = root.resolve(), writable
        below = (path.relative_to(self.root).parts for path in results if path.is_relative_to(self.root))
        self._expected = frozenset(parts[0] for parts in below if parts)
        self.folder = self.root / ".mirror"
        self.blobs = Blobs(self.folder, writable=writable)
        self._uploaded = self.folder / "repos" / "datasets"
        self._folders: dict[tuple[str, str], FolderRepo] = {}
        self._looked = 0.0
        self._lock = threading.Lock()
        self._repo_locks: dict[tuple[str, str], threading.Lock] = {}
        self._writing = ExitStack()
        self.key = self._prepare() if writable else os.urandom(KEY_BYTES)  # it signs upload URLs

    def close(self) -> None:
        self._writing.close()

    def _prepare(self) -> bytes:
        """Lock the folder, clear what an earlier server left half done, and return the key that it used."""
        try:
            make_folder(self.folder)
            message = f"another writable server runs on {self.root}: stop it, or serve without --writable"
            self._writing.enter_context(locked(self.folder / "lock", message))
        except OSError as error:
            raise StorageError(
                f"cannot write below {self.root} ({error}): serve it without --writable"
            ) from error
        make_folder(self._uploaded)
        self.blobs.prepare()
        path = self.folder / "key"
        if not path.exists():
            self.blobs.write(path, os.urandom(KEY_BYTES))
        with suppress(OSError, ValueError):
            key = read_small(path, KEY_BYTES)
            if len(key) == KEY_BYTES:
                return key
        report("the key of upload URLs", "it is damaged: those that were given out are void")
        return os.urandom(KEY_BYTES)

    def repos(self) -> list[Repo]:
        found: dict[tuple[str, str], Repo] = {(repo.owner, repo.name): repo for repo in self.uploaded()}
        found |= self._get_folders()
        return [found[key] for key in sorted(found)]

    def uploaded(self) -> Iterator[UploadedRepo]:
        """The repos under `.mirror`; what is not one is reported."""
        for owner in names_in(self._uploaded):
            if not (self._uploaded / owner).is_dir():
                report(owner, "it is not the folder of an owner")
            for name in names_in(self._uploaded / owner):
                if (repo := self._get_uploaded(owner, name)) is not None:
                    yield repo
                else:
                    report(f"{owner}/{name}", "it is not served: it is not the folder of a dataset")

    def heads(self) -> list[tuple[Repo, Commit]]:
        """The repos with their newest commits; one that is damaged is reported and left out."""
        found = []
        for repo in self.repos():
            with suppress(Refusal):  # reported, or deleted meanwhile
                found.append((repo, repo.commit("main")))
        return found

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
        self.blobs.check_room(0)
        try:
            UploadedRepo(owner, name, made, self.blobs, threading.Lock()).make(settings)
            with self._lock:
                if place.parent.exists() and not place.parent.is_dir():
                    raise Refusal(409, f"{owner} cannot be an owner here: a file has its place")
                if place.exists():
                    raise Refusal(409, f"the dataset {owner}/{name} exists already")
                make_folder(place.parent)
                made.rename(place)
                sync_folder(place.parent)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def delete(self, owner: str, name: str) -> None:
        """Delete a repo; blobs stay until a check finds that no other repo uses them."""
        repo = self.to_write(owner, name)
        away = self.blobs.tmp / uuid.uuid4().hex
        with repo.lock:
            try:
                repo.folder.rename(away)
            except FileNotFoundError:  # deleted by another request
                raise no_repo(owner, name) from None
            sync_folder(repo.folder.parent)
        shutil.rmtree(away, ignore_errors=True)  # what stays goes at the next start

    def check_writable(self) -> None:
        if not self.writable:
            raise Refusal(403, "this mirror is read-only: whoever runs it can start it with --writable")

    def _get_folders(self) -> dict[tuple[str, str], FolderRepo]:
        """The folders that are repos; a new one is seen within a second."""
        with self._lock:
            if time.monotonic() - self._looked > BELIEVED or not self._looked:
                places = find_folders(self.root, self._expected)
                found = (FolderRepo(*key, self.root, parts) for key, parts in places.items())
                known = {(repo.owner, repo.name, repo.parts): repo for repo in self._folders.values()}
                self._folders = {
                    (repo.owner, repo.name): known.get((repo.owner, repo.name, repo.parts), repo)
                    for repo in found
                }
                self._looked = time.monotonic()
            return self._folders

    def _get_uploaded(self, owner: str, name: str) -> UploadedRepo | None:
        if not is_repo_part(owner) or not is_repo_part(name):
            return None
        folder = self._uploaded / owner / name
        if not folder.is_dir():
            return None
        lock = self._repo_locks.setdefault((owner, name), threading.Lock())
        return UploadedRepo(owner, name, folder, self.blobs, lock)
