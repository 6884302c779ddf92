"""croissant.json with the addresses of this server: venues load the JSON alone.

Listings and answers agree on its size and hash.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache

from starlette.requests import Request

from shiftdata.data.format.addresses import absolute
from shiftdata.data.format.paths import CROISSANT
from shiftdata.serve.folders import Repo
from shiftdata.serve.repos import Changed, Commit, FileRecord
from shiftdata.serve.request import base_url

#: A longer text is served as it is.
MAX_BYTES = 16 << 20


def croissant_of(repo: Repo, commit: Commit, endpoint: str) -> bytes | None:
    """Return the text for a caller at this endpoint; None where the file is served as it is, or missing."""
    file = commit.files.get(CROISSANT)
    if file is None or file.size > MAX_BYTES:
        return None
    with open(repo.open(commit, CROISSANT), "rb") as stream:
        text = stream.read(MAX_BYTES)
    return absolute(text, f"{endpoint}/datasets/{repo.owner}/{repo.name}/resolve/main")


def as_listed(request: Request, repo: Repo, revision: str) -> Commit:
    """Return a commit with the sizes and hashes of what this caller would get."""
    try:
        return _listed(repo, repo.commit(revision), base_url(request))
    except Changed:  # the next request lists it again
        return repo.commit(revision)


@lru_cache(maxsize=16)
def _listed(repo: Repo, commit: Commit, endpoint: str) -> Commit:
    text = croissant_of(repo, commit, endpoint)
    return commit if text is None else replace(commit, files={**commit.files, CROISSANT: record_of(text)})


def record_of(text: bytes) -> FileRecord:
    """The entry of a text in a listing."""
    return FileRecord(len(text), hashlib.sha256(text).hexdigest())
