"""croissant.json of a served folder, with the addresses of this server: venues load the JSON alone.

Listings and answers agree on its size and hash. What clients uploaded is served as it came: `publish` has
written its addresses.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace

from starlette.requests import Request

from shiftdata.data.format.addresses import absolute
from shiftdata.data.format.paths import CROISSANT
from shiftdata.serve.folders import FolderRepo
from shiftdata.serve.library import Repo
from shiftdata.serve.repos import Changed, Commit, Entry, FileRecord, Files
from shiftdata.serve.request import base_url

#: A longer text is served with the addresses that it has.
MOST_BYTES = 16 << 20


def croissant_of(request: Request, repo: Repo, commit: Commit) -> bytes | None:
    """Return the text for this caller; None where the file is served as it is, or there is none."""
    file = commit.files.get(CROISSANT)
    if not isinstance(repo, FolderRepo) or file is None or file.size > MOST_BYTES:
        return None
    web = f"{base_url(request)}/datasets/{repo.owner}/{repo.name}/resolve/main"
    with open(repo.open(commit, CROISSANT), "rb") as stream:
        return absolute(stream.read(MOST_BYTES), web)


def as_listed(request: Request, repo: Repo, revision: str) -> Commit:
    """Return a commit whose list has what this caller would get."""
    commit = repo.commit(revision)
    try:
        text = croissant_of(request, repo, commit)
    except Changed:  # the next request lists it again
        return commit
    return commit if text is None else replace(commit, files=_Shown(commit.files, record_of(text)))


def record_of(text: bytes) -> FileRecord:
    """Return what a listing says of a text."""
    return FileRecord(len(text), hashlib.sha256(text).hexdigest())


def descriptor_of(text: bytes) -> int:
    """Return an open file with the text, which has no name."""
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.flush()
        return os.dup(file.fileno())


@dataclass(frozen=True)
class _Shown(Files):
    """The files of a commit, where croissant.json has another record."""

    files: Files
    croissant: FileRecord

    def entries(self, start: str = "") -> Iterator[Entry]:
        for entry in self.files.entries(start):
            yield entry._replace(file=self.croissant) if entry.path == CROISSANT else entry

    def __len__(self) -> int:
        return len(self.files)
