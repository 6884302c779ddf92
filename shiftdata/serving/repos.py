"""What both kinds of repos consist of: commits, their files, branches and tags, and who may read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

#: The owner of folders that have none, and the name of everybody who has the token.
OWNER = "shift"


class Changed(Exception):
    """A file is no longer what its commit says: ask the repo for its commit again."""


@dataclass(frozen=True)
class FileRecord:
    """A file of a commit. `git` is its blob id where it was committed as a plain file; else it is in LFS."""

    size: int
    sha256: str
    git: str | None = None

    @property
    def pointer(self) -> bytes:
        """What git would store instead of a file in LFS."""
        version = "version https://git-lfs.github.com/spec/v1"
        return f"{version}\noid sha256:{self.sha256}\nsize {self.size}\n".encode()

    @property
    def blob_id(self) -> str:
        return self.git or git_blob_id(self.pointer)


@dataclass(frozen=True)
class Commit:
    """A revision: every file that it has."""

    id: str
    date: str
    title: str
    message: str
    parent: str | None
    files: Mapping[str, FileRecord]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())


@dataclass(frozen=True)
class Settings:
    """Who may read: a private repo is not seen without the token, a gated one is seen and not read."""

    private: bool = False
    gated: Literal["auto", "manual", False] = False


def git_blob_id(content: bytes) -> str:
    """The id that git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def hub_time(seconds: float) -> str:
    """A time as the Hub writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
