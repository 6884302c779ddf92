"""The datasets of a mirror, opened for its pages: each at one commit, through the repo that serves it."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import IO

from shiftdata.data.dataset import OpenDataset, opened
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.places.store import FileInfo, MissingFileError, Store
from shiftdata.errors import ChangedError
from shiftdata.serve.folders import Changed, Commit, Repo


class CommitStore(Store):
    """The files of one commit of a repo, opened as the repo opens them: through no link, and never others."""

    def __init__(self, repo: Repo, commit: Commit) -> None:
        self.repo, self.commit = repo, commit
        self.address = f"{repo.owner}/{repo.name}"
        self.revision = commit.id

    def listing(self) -> dict[str, FileInfo]:
        return {path: self.info(path) for path in self.commit.files}

    def info(self, path: str) -> FileInfo:
        if path not in self.commit.files:
            raise MissingFileError(f"{self.address}/{path} does not exist")
        file = self.commit.files[path]
        return FileInfo(size=file.size, sha256=file.sha256, version=file.sha256)

    def open(self, path: str) -> IO[bytes]:
        self.info(path)
        try:
            return os.fdopen(self.repo.open(self.commit, path), "rb", buffering=0)
        except Changed:
            raise ChangedError(f"{self.address} has changed: load the page again") from None

    def close(self) -> None:
        """Nothing stays open."""


@lru_cache(maxsize=8)  # datasets whose metadata stay in memory
def dataset_of(repo: Repo, commit: Commit) -> OpenDataset | None:
    """The dataset of a repo at a commit; None where it is not one of ours."""
    if FILE_NAME not in commit.files:
        return None
    store = CommitStore(repo, commit)
    return opened(store, store.read(FILE_NAME))
