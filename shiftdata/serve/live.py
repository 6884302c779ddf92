"""The datasets of a mirror, opened for its pages: each at one commit, through the repo that serves it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import IO

from shiftdata.data.dataset import OpenDataset, opened
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.format.records import FileRecord as ManifestRecord
from shiftdata.data.places.store import MOST_SMALL, FileInfo, MissingFileError, OnBytes, Store
from shiftdata.errors import ChangedError, IntegrityError, StorageError
from shiftdata.serve.folders import Changed, Commit, Repo


class CommitStore(Store):
    """The files of one commit of a repo, opened as the repo opens them: through no link, and never others."""

    def __init__(self, repo: Repo, commit: Commit) -> None:
        self.repo, self.commit = repo, commit
        self.address = f"{repo.owner}/{repo.name}"
        self.revision = commit.id

    def listing(self) -> dict[str, FileInfo]:
        return {
            path: FileInfo(size=file.size, sha256=file.sha256) for path, file in self.commit.files.items()
        }

    def info(self, path: str) -> FileInfo:
        if path not in self.commit.files:
            raise MissingFileError(f"{self.address}/{path} does not exist")
        file = self.commit.files[path]
        return FileInfo(size=file.size, sha256=file.sha256, version=file.sha256)

    def read(self, path: str, most: int = MOST_SMALL) -> bytes:
        size = self.info(path).size or 0
        if size > most:
            raise IntegrityError(f"{self.address}/{path} has more than the {most:,} bytes that are allowed")
        return self.range(path, 0, size)

    def range(self, path: str, start: int, end: int) -> bytes:
        with self.open(path) as file:
            file.seek(start)
            data = file.read(end - start)
        if len(data) != end - start:
            raise StorageError(f"{self.address}/{path} ends before byte {end}")
        return data

    def open(self, path: str) -> IO[bytes]:
        self.info(path)
        try:
            return os.fdopen(self.repo.open(self.commit, path), "rb", buffering=0)
        except Changed:
            raise ChangedError(f"{self.address} has changed: load the page again") from None

    def download(self, path: str, file: Path, record: ManifestRecord, on_bytes: OnBytes) -> None:
        raise StorageError(f"{self.address} is served here: nothing is downloaded from it")

    def close(self) -> None:
        """Nothing stays open."""


@lru_cache(maxsize=8)  # datasets whose metadata stay in memory
def dataset_of(repo: Repo, commit: Commit) -> OpenDataset | None:
    """The dataset of a repo at a commit; None where it is not one of ours."""
    if FILE_NAME not in commit.files:
        return None
    store = CommitStore(repo, commit)
    return opened(store, store.read(FILE_NAME))
