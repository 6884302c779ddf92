"""A commit of a repo and its files, as the Hub's clients know them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

#: The owner of folders without one, and the user name of everybody who has the token.
OWNER = "shift"


class Changed(Exception):
    """A file is no longer what its commit says: ask the repo for its commit again."""


class FileRecord(NamedTuple):
    """A file of a commit. For git, every file is in LFS: its blob is a pointer."""

    size: int
    sha256: str

    @property
    def pointer(self) -> bytes:
        version = "version https://git-lfs.github.com/spec/v1"
        return f"{version}\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @property
    def blob_id(self) -> str:
        return git_blob_id(self.pointer)


@dataclass(frozen=True, eq=False)
class Commit:
    """A revision of a repo; `files` are in the order of their paths."""

    id: str
    date: str
    files: Mapping[str, FileRecord]

    @cached_property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    @cached_property
    def folders(self) -> frozenset[str]:
        folders: set[str] = set()
        for path in self.files:
            while (path := path.rpartition("/")[0]) and path not in folders:
                folders.add(path)
        return frozenset(folders)

    @cached_property
    def paths(self) -> list[str]:
        """Files and folders, sorted: what a folder contains is one stretch."""
        return sorted([*self.files, *self.folders])


def git_blob_id(content: bytes) -> str:
    """The id that git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def hub_time(seconds: float) -> str:
    """A time as the Hub writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
